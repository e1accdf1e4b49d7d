; A helper's life, and where it may run.

define internal ptr @helper(ptr %w) nounwind {
entry:
  call i32 (i32, ...) @prctl(i32 15, ptr @name)
  %p = load atomic ptr, ptr @pool acquire, align 8
  %asleep = getelementptr i8, ptr %w, i64 4
  %job.at = getelementptr i8, ptr %w, i64 8
  %me.at = getelementptr i8, ptr %w, i64 16
  %masked.at = getelementptr i8, ptr %w, i64 32
  %lent.at = getelementptr i8, ptr %w, i64 40
  br label %idle
idle:
  %since = call i64 @now()
  br label %look
look:
  %n = phi i64 [ 0, %idle ], [ %n.next, %spin ], [ 0, %time ]
  %state = load atomic i32, ptr %w acquire, align 4
  %given = icmp eq i32 %state, 2
  br i1 %given, label %accept, label %other
other:
  %over = icmp eq i32 %state, 6
  br i1 %over, label %end, label %spin
spin:
  $PAUSE
  %n.next = add i64 %n, 1
  %often = icmp ult i64 %n.next, 16
  br i1 %often, label %look, label %time
time:
  %here = call i64 @now()
  %spent = sub i64 %here, %since
  %awake = icmp ult i64 %spent, $AWAKE
  br i1 %awake, label %look, label %rest
rest:
  %was = atomicrmw xchg ptr %asleep, i32 1 seq_cst
  %again = load atomic i32, ptr %w seq_cst, align 4
  %wanted = or i32 %again, 4
  %late = icmp eq i32 %wanted, 6         ; a job, or the end, is there already
  br i1 %late, label %up, label %down
down:
  call void @sleep(ptr %asleep, i32 1, ptr null)
  br label %up
up:
  store atomic i32 0, ptr %asleep seq_cst, align 4
  br label %idle
accept:
  %pair = cmpxchg ptr %w, i32 2, i32 3 acq_rel monotonic
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %begin, label %idle
end:
  ret ptr null
begin:
  %job = load ptr, ptr %job.at
  %me = load i64, ptr %me.at
  %cpu.at = getelementptr i8, ptr %job, i64 40
  %theirs = load i32, ptr %cpu.at
  %mine = call i32 @sched_getcpu()
  %same = icmp eq i32 %mine, %theirs
  %masked = load i64, ptr %masked.at
  %narrowed = icmp ne i64 %masked, 0
  %about = call i64 @about_now()
  %age = sub i64 %about, %masked
  %aged = icmp ugt i64 %age, $MASK
  %stale = and i1 %narrowed, %aged
  %ask = or i1 %same, %stale
  br i1 %ask, label %move, label %do
move:
  %caller.at = getelementptr i8, ptr %job, i64 48
  %caller = load ptr, ptr %caller.at
  %there = call i1 @keep_off(ptr %w, ptr %caller, i32 %theirs)
  %both = and i1 %same, %there
  %one = zext i1 %both to i64
  call void @count(ptr %p, i64 $N_MOVED, i64 %one)
  %nowhere = xor i1 %there, true
  %stuck = and i1 %same, %nowhere        ; it may use its caller's core alone: leave that to it
  br i1 %stuck, label %done, label %do
do:
  call void @work(ptr %job, i64 %me)
  br label %done
done:
  %in.the.way = phi i1 [ true, %move ], [ false, %do ]
  %before = atomicrmw xchg ptr %w, i32 5 acq_rel
  %awaited = icmp eq i32 %before, 4
  br i1 %awaited, label %tell, label %told
tell:
  call void @wake(ptr %w)
  br label %told
told:
  %lent = atomicrmw xchg ptr %lent.at, i32 0 monotonic
  %was.lent = icmp ne i32 %lent, 0
  %leave = or i1 %in.the.way, %was.lent  ; nobody spins on a caller's core
  br i1 %leave, label %rest, label %idle
}

; let a helper use what another thread may use now, but for one core; false: there is no other
define internal i1 @keep_off(ptr %w, ptr %thread, i32 %core) nounwind {
entry:
  %set = alloca [128 x i64]
  call void @llvm.memset.p0.i64(ptr %set, i8 0, i64 1024, i1 false)
  %failed = call i32 @pthread_getaffinity_np(ptr %thread, i64 1024, ptr %set)
  %known = icmp eq i32 %failed, 0
  %inside = icmp ult i32 %core, 8192
  %good = and i1 %known, %inside
  br i1 %good, label %less, label %no
less:
  %bit = call i64 @core_bit(i32 %core)
  %at = call ptr @core_word(ptr %set, i32 %core)
  %old = load i64, ptr %at
  %others = xor i64 %bit, -1
  %new = and i64 %old, %others
  store i64 %new, ptr %at
  %own.at = getelementptr i8, ptr %w, i64 24
  %own = load ptr, ptr %own.at
  %bad = call i32 @pthread_setaffinity_np(ptr %own, i64 1024, ptr %set)  ; an empty mask is an error
  %done = icmp eq i32 %bad, 0
  br i1 %done, label %yes, label %no
yes:
  %here = call i64 @about_now()
  %masked.at = getelementptr i8, ptr %w, i64 32
  store atomic i64 %here, ptr %masked.at monotonic, align 8
  ret i1 true
no:
  ret i1 false
}

; bring a helper to one core; false: it may not go there
define internal i1 @bring(ptr %w, i32 %core) nounwind {
entry:
  %set = alloca [128 x i64]
  call void @llvm.memset.p0.i64(ptr %set, i8 0, i64 1024, i1 false)
  %inside = icmp ult i32 %core, 8192
  br i1 %inside, label %only, label %no
only:
  %bit = call i64 @core_bit(i32 %core)
  %at = call ptr @core_word(ptr %set, i32 %core)
  store i64 %bit, ptr %at
  %own.at = getelementptr i8, ptr %w, i64 24
  %own = load ptr, ptr %own.at
  %bad = call i32 @pthread_setaffinity_np(ptr %own, i64 1024, ptr %set)
  %done = icmp eq i32 %bad, 0
  ret i1 %done
no:
  ret i1 false
}

define internal ptr @core_word(ptr %set, i32 %core) nounwind {
  %number = lshr i32 %core, 6
  %long = zext i32 %number to i64
  %at = getelementptr i64, ptr %set, i64 %long
  ret ptr %at
}
define internal i64 @core_bit(i32 %core) nounwind {
  %low = and i32 %core, 63
  %long = zext i32 %low to i64
  %bit = shl i64 1, %long
  ret i64 %bit
}
