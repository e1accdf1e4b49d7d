; The threads of a process: how many there may be, and their making and ending. pool.py says what
; the runtime does, puts numbers in place of words with a dollar, and joins the four files.
;
; The pool: 0 cores (0: not ready), 4 process, 8 helpers made, 12 whether one is being made;
; 64 runs under way, 68 helpers hired; 128 the counters (`COUNTERS` in pool.py); then the helpers.
; A helper: 0 state, 4 asleep, 8 job, 16 its number in the job, 24 its thread, 32 when its mask was
; set (0: never), 40 whether it was lent a core.

@pool = internal global ptr null
@variable = internal constant [15 x i8] c"TILEWORK_CORES\00"
@name = internal constant [9 x i8] c"tilework\00"
declare i64 @syscall(i64, ...)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare i32 @getpid()
declare ptr @getenv(ptr)
declare i32 @atoi(ptr)
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_getcpu()
declare i32 @clock_gettime(i32, ptr)
declare i32 @prctl(i32, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(ptr, ptr)
declare ptr @pthread_self()
declare i32 @pthread_getaffinity_np(ptr, i64, ptr)
declare i32 @pthread_setaffinity_np(ptr, i64, ptr)
declare i32 @pthread_getcpuclockid(ptr, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
$DECLARED
declare i64 @llvm.ctpop.i64(i64)
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i64 @nanoseconds(ptr %time) nounwind {
  %s = load i64, ptr %time
  %at = getelementptr i64, ptr %time, i64 1
  %ns = load i64, ptr %at
  %whole = mul i64 %s, 1000000000
  %sum = add i64 %whole, %ns
  ret i64 %sum
}

; nanoseconds of the monotonic clock
define internal i64 @now() nounwind {
  %t = alloca [2 x i64]
  call i32 @clock_gettime(i32 1, ptr %t)
  %ns = call i64 @nanoseconds(ptr %t)
  ret i64 %ns
}

; the same clock to some milliseconds, for a few cycles
define internal i64 @about_now() nounwind {
  %t = alloca [2 x i64]
  call i32 @clock_gettime(i32 6, ptr %t)
  %ns = call i64 @nanoseconds(ptr %t)
  ret i64 %ns
}

; until somebody wakes this thread, or a time is over (null: none), if a word still holds a number
define internal void @sleep(ptr %word, i32 %while, ptr %time) nounwind {
  call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i32 128, i32 %while, ptr %time)
  ret void
}
define internal void @wake(ptr %word) nounwind {
  call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i32 129, i32 1)
  ret void
}

; wake a helper if it sleeps
define internal void @rouse(ptr %p, ptr %w) nounwind {
entry:
  %asleep = getelementptr i8, ptr %w, i64 4
  %sleeps = load atomic i32, ptr %asleep seq_cst, align 4
  %must = icmp ne i32 %sleeps, 0
  br i1 %must, label %wake, label %end
wake:
  store atomic i32 0, ptr %asleep monotonic, align 4
  call void @wake(ptr %asleep)
  call void @count(ptr %p, i64 $N_WOKEN, i64 1)
  br label %end
end:
  ret void
}

; the same of so many, if they are there
define internal void @rouse_all(ptr %p, i32 %wanted) nounwind {
entry:
  %made.at = getelementptr i8, ptr %p, i64 8
  %made = load atomic i32, ptr %made.at acquire, align 4
  %number = call i32 @llvm.smin.i32(i32 %made, i32 %wanted)
  %first = getelementptr i8, ptr %p, i64 $WORKERS
  br label %next
next:
  %i = phi i32 [ 0, %entry ], [ %i.next, %one ]
  %more = icmp slt i32 %i, %number
  br i1 %more, label %one, label %end
one:
  %i.long = zext i32 %i to i64
  %offset = mul i64 %i.long, $WORKER
  %w = getelementptr i8, ptr %first, i64 %offset
  call void @rouse(ptr %p, ptr %w)
  %i.next = add i32 %i, 1
  br label %next
end:
  ret void
}

define internal void @count(ptr %p, i64 %which, i64 %more) nounwind {
  %counters = getelementptr i8, ptr %p, i64 128
  %at = getelementptr i64, ptr %counters, i64 %which
  %x = atomicrmw add ptr %at, i64 %more monotonic
  ret void
}

; what was counted since the pool was made
define void @tw_pool_counts(ptr %out) nounwind {
entry:
  %p = call ptr @pool_here()
  %none = icmp eq ptr %p, null
  br i1 %none, label %end, label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %counters = getelementptr i8, ptr %p, i64 128
  %from = getelementptr i64, ptr %counters, i64 %i
  %to = getelementptr i64, ptr %out, i64 %i
  %n = load atomic i64, ptr %from monotonic, align 8
  store i64 %n, ptr %to
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, $COUNTERS
  br i1 %more, label %next, label %end
end:
  ret void
}

; the pool of this process; null if there is no memory for it
define internal ptr @pool_here() nounwind {
entry:
  %old = load atomic ptr, ptr @pool acquire, align 8
  %none = icmp eq ptr %old, null
  br i1 %none, label %make, label %known
known:
  %pid.at = getelementptr i8, ptr %old, i64 4
  %pid = load i32, ptr %pid.at
  %cleared = icmp eq i32 %pid, 0
  br i1 %cleared, label %check, label %compare
compare:
  %pid.now = call i32 @getpid()
  %same = icmp eq i32 %pid, %pid.now
  br i1 %same, label %check, label %make
make:
  %new = call ptr @mmap(ptr null, i64 $BYTES, i32 3, i32 34, i32 -1, i64 0)
  %bad = icmp eq ptr %new, inttoptr (i64 -1 to ptr)
  br i1 %bad, label %nothing, label %made
nothing:
  ret ptr null
made:
  %wiped = call i32 @madvise(ptr %new, i64 $BYTES, i32 18)
  %wipes = icmp eq i32 %wiped, 0
  %me = call i32 @getpid()
  %mark = select i1 %wipes, i32 0, i32 %me
  %mark.at = getelementptr i8, ptr %new, i64 4
  store i32 %mark, ptr %mark.at
  %pair = cmpxchg ptr @pool, ptr %old, ptr %new acq_rel acquire
  %won = extractvalue { ptr, i1 } %pair, 1
  br i1 %won, label %check, label %lost
lost:
  %other = extractvalue { ptr, i1 } %pair, 0
  call i32 @munmap(ptr %new, i64 $BYTES)
  br label %check
check:
  %p = phi ptr [ %old, %known ], [ %old, %compare ], [ %new, %made ], [ %other, %lost ]
  %cores = load atomic i32, ptr %p monotonic, align 4
  %ready = icmp ne i32 %cores, 0
  br i1 %ready, label %done, label %count
count:
  %counted = call i32 @cores()
  store atomic i32 %counted, ptr %p monotonic, align 4
  br label %done
done:
  ret ptr %p
}

; cores that this process may use
define internal i32 @cores() nounwind {
entry:
  %set = alloca [128 x i64]
  %text = call ptr @getenv(ptr @variable)
  %unset = icmp eq ptr %text, null
  br i1 %unset, label %ask, label %read
read:
  %wanted = call i32 @atoi(ptr %text)
  %sense = icmp sgt i32 %wanted, 0
  br i1 %sense, label %end, label %ask
ask:
  call void @llvm.memset.p0.i64(ptr %set, i8 0, i64 1024, i1 false)
  %got = call i32 @sched_getaffinity(i32 0, i64 1024, ptr %set)
  br label %word
word:
  %i = phi i64 [ 0, %ask ], [ %i.next, %word ]
  %sum = phi i64 [ 0, %ask ], [ %sum.next, %word ]
  %at = getelementptr i64, ptr %set, i64 %i
  %bits = load i64, ptr %at
  %set.bits = call i64 @llvm.ctpop.i64(i64 %bits)
  %sum.next = add i64 %sum, %set.bits
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 128
  br i1 %more, label %word, label %counted
counted:
  %here = trunc i64 %sum.next to i32
  br label %end
end:
  %all = phi i32 [ %wanted, %read ], [ %here, %counted ]
  %some = call i32 @llvm.smax.i32(i32 %all, i32 1)
  %most = call i32 @llvm.smin.i32(i32 %some, i32 $THREADS)
  ret i32 %most
}

; have so many helpers, if they can be made; another thread that makes some is not waited for
define internal void @grow(ptr %p, i32 %wanted) nounwind {
entry:
  %all = alloca [16 x i64]
  %old = alloca [16 x i64]
  %made.at = getelementptr i8, ptr %p, i64 8
  %lock = getelementptr i8, ptr %p, i64 12
  %pair = cmpxchg ptr %lock, i32 0, i32 1 acq_rel monotonic
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %begin, label %end
begin:
  call i32 @sigfillset(ptr %all)
  call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  br label %next
next:
  %made = load i32, ptr %made.at
  %fewer = icmp slt i32 %made, %wanted
  br i1 %fewer, label %make, label %finish
make:
  %number = sext i32 %made to i64
  %offset = mul i64 %number, $WORKER
  %first = getelementptr i8, ptr %p, i64 $WORKERS
  %w = getelementptr i8, ptr %first, i64 %offset
  %thread = getelementptr i8, ptr %w, i64 24
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @helper, ptr %w)
  %good = icmp eq i32 %failed, 0
  br i1 %good, label %count, label %finish
count:
  %more = add i32 %made, 1
  store atomic i32 %more, ptr %made.at release, align 4
  br label %next
finish:
  call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  store atomic i32 0, ptr %lock release, align 4
  br label %end
end:
  ret void
}

define void @tw_pool_stop() nounwind {
entry:
  %known = load atomic ptr, ptr @pool acquire, align 8
  %none = icmp eq ptr %known, null
  br i1 %none, label %end, label %here
here:                                    ; in a forked child this is a pool without helpers
  %p = call ptr @pool_here()
  %lost = icmp eq ptr %p, null
  br i1 %lost, label %end, label %count
count:
  %made.at = getelementptr i8, ptr %p, i64 8
  %made = load atomic i32, ptr %made.at acquire, align 4
  %first = getelementptr i8, ptr %p, i64 $WORKERS
  br label %next
next:
  %i = phi i32 [ 0, %count ], [ %i.next, %join ]
  %more = icmp slt i32 %i, %made
  br i1 %more, label %ask, label %free
ask:
  %i.next = add i32 %i, 1
  %i.long = zext i32 %i to i64
  %offset = mul i64 %i.long, $WORKER
  %w = getelementptr i8, ptr %first, i64 %offset
  %asleep = getelementptr i8, ptr %w, i64 4
  %thread.at = getelementptr i8, ptr %w, i64 24
  %x = atomicrmw xchg ptr %w, i32 6 seq_cst
  %y = atomicrmw xchg ptr %asleep, i32 0 seq_cst
  call void @wake(ptr %asleep)
  br label %join
join:
  %thread = load ptr, ptr %thread.at
  call i32 @pthread_join(ptr %thread, ptr null)
  br label %next
free:
  %pair = cmpxchg ptr @pool, ptr %p, ptr null acq_rel monotonic
  call i32 @munmap(ptr %p, i64 $BYTES)
  br label %end
end:
  ret void
}
