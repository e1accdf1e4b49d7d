; The runtime of threads for Linux; pool.py says what it does, and puts numbers in place of $WORDS.
;
; The pool: 0 cores (0: not ready), 4 process, 8 helpers made, 12 whether one is being made;
; 64 runs under way, 68 helpers hired; then the helpers.
; A helper: 0 state, 4 asleep, 8 job, 16 its number in the job, 24 its thread.
; A job: 0 region, 8 bases, 16 extent, 24 chunks, 32 threads, 40 the caller's core; then the
; shares, 64 bytes apart: the first chunk in the lower half, the end in the upper one.
; A site: mean time of a run together, alone, runs left in this state, state, the mean when it was
; chosen, most runs until a trial. States: 0 together at first, 1 alone at first, 2 together, 3 alone,
; 4 (from 2) alone on trial, 5 (from 3) together on trial.
; A run: when it began (0: it is not judged), its state.

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
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
$DECLARED
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.readcyclecounter()
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

; nanoseconds of the monotonic clock
define internal i64 @now() nounwind {
  %t = alloca [2 x i64]
  call i32 @clock_gettime(i32 1, ptr %t)
  %s = load i64, ptr %t
  %at = getelementptr i64, ptr %t, i64 1
  %ns = load i64, ptr %at
  %whole = mul i64 %s, 1000000000
  %sum = add i64 %whole, %ns
  ret i64 %sum
}

; something that counts on evenly, cheaply where the machine has it
define internal i64 @ticks() nounwind {
  %t = call i64 @$TICKS()
  ret i64 %t
}

define internal void @sleep(ptr %word, i32 %while) nounwind {
  call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i32 128, i32 %while, ptr null)
  ret void
}
define internal void @wake(ptr %word) nounwind {
  call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i32 129, i32 1)
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
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; run chunks of a job until all are taken
define internal void @work(ptr %job, i64 %me) nounwind {
entry:
  %region = load ptr, ptr %job
  %bases.at = getelementptr i8, ptr %job, i64 8
  %bases = load ptr, ptr %bases.at
  %extent.at = getelementptr i8, ptr %job, i64 16
  %extent = load i64, ptr %extent.at
  %chunks.at = getelementptr i8, ptr %job, i64 24
  %chunks = load i64, ptr %chunks.at
  %threads.at = getelementptr i8, ptr %job, i64 32
  %threads = load i64, ptr %threads.at
  %shares = getelementptr i8, ptr %job, i64 64
  br label %owner
owner:
  %k = phi i64 [ 0, %entry ], [ %k.next, %empty ]
  %sum = add i64 %me, %k
  %over = icmp uge i64 %sum, %threads
  %less = sub i64 %sum, %threads
  %whose = select i1 %over, i64 %less, i64 %sum
  %at = mul i64 %whose, 64
  %share = getelementptr i8, ptr %shares, i64 %at
  %own = icmp eq i64 %k, 0
  %first = load atomic i64, ptr %share monotonic, align 8
  br label %take
take:
  %old = phi i64 [ %first, %owner ], [ %seen, %try ], [ %after, %run ]
  %low = and i64 %old, 4294967295
  %high = lshr i64 %old, 32
  %some = icmp ult i64 %low, %high
  br i1 %some, label %try, label %empty
try:
  %front = add i64 %old, 1
  %back = sub i64 %old, 4294967296
  %new = select i1 %own, i64 %front, i64 %back
  %last = sub i64 %high, 1
  %chunk = select i1 %own, i64 %low, i64 %last
  %pair = cmpxchg ptr %share, i64 %old, i64 %new acq_rel monotonic
  %seen = extractvalue { i64, i1 } %pair, 0
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %run, label %take
run:
  %a = mul i64 %chunk, %extent
  %start = udiv i64 %a, %chunks
  %b = add i64 %a, %extent
  %stop = udiv i64 %b, %chunks
  call void %region(ptr %bases, i64 %start, i64 %stop, i64 %me)
  %after = load atomic i64, ptr %share monotonic, align 8
  br label %take
empty:
  %k.next = add i64 %k, 1
  %others = icmp ult i64 %k.next, %threads
  br i1 %others, label %owner, label %end
end:
  ret void
}

; a helper's life
define internal ptr @helper(ptr %w) nounwind {
entry:
  call i32 (i32, ...) @prctl(i32 15, ptr @name)
  %asleep = getelementptr i8, ptr %w, i64 4
  %job.at = getelementptr i8, ptr %w, i64 8
  %me.at = getelementptr i8, ptr %w, i64 16
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
  %late = icmp ne i32 %again, 0
  br i1 %late, label %up, label %down
down:
  call void @sleep(ptr %asleep, i32 1)
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
  br i1 %same, label %done, label %do
do:
  call void @work(ptr %job, i64 %me)
  br label %done
done:
  %before = atomicrmw xchg ptr %w, i32 5 acq_rel
  %awaited = icmp eq i32 %before, 4
  br i1 %awaited, label %tell, label %idle
tell:
  call void @wake(ptr %w)
  br label %idle
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

define void @tw_parallel(ptr %region, ptr %bases, i64 %extent, i32 %threads) nounwind {
entry:
  %job = alloca [$JOB x i8], align 64
  %hired = alloca [$HELPERS x ptr], align 8
  %p = call ptr @pool_here()
  %none = icmp eq ptr %p, null
  br i1 %none, label %alone, label %budget
budget:                                  ; helpers wanted, and how many of them there are cores for
  %cores = load atomic i32, ptr %p monotonic, align 4
  %fit = call i32 @llvm.smin.i32(i32 %threads, i32 %cores)
  %fit.long = zext i32 %fit to i64
  %useful = call i64 @llvm.umin.i64(i64 %fit.long, i64 %extent)
  %useful.int = trunc i64 %useful to i32
  %want = sub i32 %useful.int, 1
  %any = icmp sgt i32 %want, 0
  br i1 %any, label %claim, label %alone
claim:
  %runs.at = getelementptr i8, ptr %p, i64 64
  %runs.counted = load atomic i32, ptr %runs.at monotonic, align 4
  %runs = call i32 @llvm.smax.i32(i32 %runs.counted, i32 1)
  %hired.at = getelementptr i8, ptr %p, i64 68
  %before = atomicrmw add ptr %hired.at, i32 %want monotonic
  %free = sub i32 %cores, %runs
  %left = sub i32 %free, %before
  %left.some = call i32 @llvm.smax.i32(i32 %left, i32 0)
  %may = call i32 @llvm.smin.i32(i32 %left.some, i32 %want)
  %made.at = getelementptr i8, ptr %p, i64 8
  %made.now = load atomic i32, ptr %made.at acquire, align 4
  %enough = icmp sge i32 %made.now, %may
  br i1 %enough, label %hire, label %grow
grow:
  call void @grow(ptr %p, i32 %may)
  br label %hire
hire:                                    ; take idle helpers
  %made = load atomic i32, ptr %made.at acquire, align 4
  %first = getelementptr i8, ptr %p, i64 $WORKERS
  br label %seek
seek:
  %i = phi i32 [ 0, %hire ], [ %i.next, %no ], [ %i.next2, %yes ]
  %got = phi i32 [ 0, %hire ], [ %got, %no ], [ %got.next, %yes ]
  %more = icmp slt i32 %i, %made
  %lacking = icmp slt i32 %got, %may
  %go = and i1 %more, %lacking
  br i1 %go, label %try, label %hired.all
try:
  %i.long = zext i32 %i to i64
  %offset = mul i64 %i.long, $WORKER
  %w = getelementptr i8, ptr %first, i64 %offset
  %w.state = load atomic i32, ptr %w monotonic, align 4
  %idle = icmp eq i32 %w.state, 0
  br i1 %idle, label %ask, label %no
ask:
  %pair = cmpxchg ptr %w, i32 0, i32 1 acq_rel monotonic
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %yes, label %no
no:
  %i.next = add i32 %i, 1
  br label %seek
yes:
  %i.next2 = add i32 %i, 1
  %slot = getelementptr ptr, ptr %hired, i32 %got
  store ptr %w, ptr %slot
  %got.next = add i32 %got, 1
  br label %seek
hired.all:                               ; give the rest of the budget back
  %excess = sub i32 %want, %got
  %x = atomicrmw sub ptr %hired.at, i32 %excess monotonic
  %nobody = icmp eq i32 %got, 0
  br i1 %nobody, label %alone, label %write
write:
  %team = add i32 %got, 1
  %team.long = zext i32 %team to i64
  %cut = mul i64 %team.long, $CHUNKS
  %chunks = call i64 @llvm.umin.i64(i64 %cut, i64 %extent)
  store ptr %region, ptr %job
  %bases.at = getelementptr i8, ptr %job, i64 8
  store ptr %bases, ptr %bases.at
  %extent.at = getelementptr i8, ptr %job, i64 16
  store i64 %extent, ptr %extent.at
  %chunks.at = getelementptr i8, ptr %job, i64 24
  store i64 %chunks, ptr %chunks.at
  %threads.at = getelementptr i8, ptr %job, i64 32
  store i64 %team.long, ptr %threads.at
  %cpu.at = getelementptr i8, ptr %job, i64 40
  %cpu = call i32 @sched_getcpu()
  store i32 %cpu, ptr %cpu.at
  %shares = getelementptr i8, ptr %job, i64 64
  br label %cuts
cuts:
  %t = phi i64 [ 0, %write ], [ %t.next, %cuts ]
  %low = phi i64 [ 0, %write ], [ %high, %cuts ]
  %t.next = add i64 %t, 1
  %part = mul i64 %t.next, %chunks
  %high = udiv i64 %part, %team.long
  %upper = shl i64 %high, 32
  %both = or i64 %upper, %low
  %share.offset = mul i64 %t, 64
  %share = getelementptr i8, ptr %shares, i64 %share.offset
  store atomic i64 %both, ptr %share monotonic, align 8
  %cut.more = icmp ult i64 %t.next, %team.long
  br i1 %cut.more, label %cuts, label %assign
assign:
  %a = phi i32 [ 0, %cuts ], [ %a.next, %assigned ]
  %a.slot = getelementptr ptr, ptr %hired, i32 %a
  %a.w = load ptr, ptr %a.slot
  %a.job = getelementptr i8, ptr %a.w, i64 8
  store ptr %job, ptr %a.job
  %a.next = add i32 %a, 1
  %a.number = zext i32 %a.next to i64
  %a.number.at = getelementptr i8, ptr %a.w, i64 16
  store i64 %a.number, ptr %a.number.at
  %a.old = atomicrmw xchg ptr %a.w, i32 2 seq_cst
  %a.asleep = getelementptr i8, ptr %a.w, i64 4
  %sleeps = load atomic i32, ptr %a.asleep seq_cst, align 4
  %must = icmp ne i32 %sleeps, 0
  br i1 %must, label %rouse, label %assigned
rouse:
  store atomic i32 0, ptr %a.asleep monotonic, align 4
  call void @wake(ptr %a.asleep)
  br label %assigned
assigned:
  %a.more = icmp slt i32 %a.next, %got
  br i1 %a.more, label %assign, label %own
own:
  call void @work(ptr %job, i64 0)
  br label %gather
gather:                                  ; take the job back from helpers, or wait for them
  %g = phi i32 [ 0, %own ], [ %g.next, %dismissed ]
  %g.slot = getelementptr ptr, ptr %hired, i32 %g
  %g.w = load ptr, ptr %g.slot
  %g.next = add i32 %g, 1
  %g.state = load atomic i32, ptr %g.w acquire, align 4
  %g.done = icmp eq i32 %g.state, 5
  br i1 %g.done, label %dismiss, label %revoke
revoke:
  %r.pair = cmpxchg ptr %g.w, i32 2, i32 0 acq_rel monotonic
  %r.won = extractvalue { i32, i1 } %r.pair, 1
  br i1 %r.won, label %dismissed, label %wait
wait:
  %since = call i64 @now()
  br label %look
look:
  %n = phi i64 [ 0, %wait ], [ %n.next, %spin ], [ 0, %time ]
  %state = load atomic i32, ptr %g.w acquire, align 4
  %done = icmp eq i32 %state, 5
  br i1 %done, label %dismiss, label %spin
spin:
  $PAUSE
  %n.next = add i64 %n, 1
  %often = icmp ult i64 %n.next, 16
  br i1 %often, label %look, label %time
time:
  %here = call i64 @now()
  %spent = sub i64 %here, %since
  %soon = icmp ult i64 %spent, $WAIT
  br i1 %soon, label %look, label %await
await:
  %w.pair = cmpxchg ptr %g.w, i32 3, i32 4 acq_rel monotonic
  br label %nap
nap:
  %w.now = load atomic i32, ptr %g.w acquire, align 4
  %w.done = icmp eq i32 %w.now, 5
  br i1 %w.done, label %dismiss, label %down
down:
  call void @sleep(ptr %g.w, i32 4)
  br label %nap
dismiss:
  store atomic i32 0, ptr %g.w release, align 4
  br label %dismissed
dismissed:
  %g.more = icmp slt i32 %g.next, %got
  br i1 %g.more, label %gather, label %all
all:
  %y = atomicrmw sub ptr %hired.at, i32 %got monotonic
  ret void
alone:
  call void %region(ptr %bases, i64 0, i64 %extent, i64 0)
  ret void
}

define i32 @tw_enter(ptr %site, ptr %run, i32 %threads) nounwind {
entry:
  store i64 0, ptr %run
  %p = call ptr @pool_here()
  %none = icmp eq ptr %p, null
  br i1 %none, label %all, label %count
count:
  %runs.at = getelementptr i8, ptr %p, i64 64
  %others = atomicrmw add ptr %runs.at, i32 1 monotonic
  %cores = load atomic i32, ptr %p monotonic, align 4
  %beside = icmp ne i32 %others, 0
  %several = call i32 @llvm.smin.i32(i32 %threads, i32 %cores)
  %one = icmp slt i32 %several, 2
  %nowhere = icmp eq ptr %site, null
  %x = or i1 %beside, %one
  %unjudged = or i1 %x, %nowhere
  br i1 %unjudged, label %all, label %judged
judged:
  %state.at = getelementptr i64, ptr %site, i64 3
  %state = load i64, ptr %state.at
  %taken.at = getelementptr i64, ptr %run, i64 1
  store i64 %state, ptr %taken.at
  %began = call i64 @ticks()
  store i64 %began, ptr %run
  %alone = call i1 @alone(i64 %state)
  %number = select i1 %alone, i32 1, i32 %threads
  ret i32 %number
all:
  ret i32 %threads
}

; whether runs in a state are on one thread
define internal i1 @alone(i64 %state) nounwind {
  %bits = lshr i64 26, %state            ; states 1, 3 and 4
  %alone = trunc i64 %bits to i1
  ret i1 %alone
}

define void @tw_leave(ptr %site, ptr %run) nounwind {
entry:
  %p = load atomic ptr, ptr @pool acquire, align 8
  %none = icmp eq ptr %p, null
  br i1 %none, label %end, label %count
count:
  %runs.at = getelementptr i8, ptr %p, i64 64
  %runs = atomicrmw sub ptr %runs.at, i32 1 monotonic
  %began = load i64, ptr %run
  %unjudged = icmp eq i64 %began, 0
  %beside = icmp ne i32 %runs, 1
  %skip = or i1 %unjudged, %beside
  br i1 %skip, label %end, label %judge
judge:
  %here = call i64 @ticks()
  %spent = sub i64 %here, %began
  %left.at = getelementptr i64, ptr %site, i64 2
  %state.at = getelementptr i64, ptr %site, i64 3
  %chosen.at = getelementptr i64, ptr %site, i64 4
  %taken.at = getelementptr i64, ptr %run, i64 1
  %taken = load i64, ptr %taken.at
  %state = load i64, ptr %state.at
  %stale = icmp ne i64 %taken, %state
  br i1 %stale, label %end, label %sample
sample:
  %left.now = load i64, ptr %left.at
  %fresh = icmp eq i64 %left.now, 0      ; the first run of all
  %left = select i1 %fresh, i64 $FIRST, i64 %left.now
  %alone = call i1 @alone(i64 %state)
  %which = zext i1 %alone to i64
  %mean.at = getelementptr i64, ptr %site, i64 %which
  %mean = load i64, ptr %mean.at
  %steady.bits = lshr i64 12, %state     ; states 2 and 3
  %steady = trunc i64 %steady.bits to i1
  %start.first = icmp eq i64 %state, 0
  %length = select i1 %start.first, i64 $FIRST, i64 $TRIAL
  %begins = icmp eq i64 %left, %length
  %not.steady = xor i1 %steady, true
  %cold = and i1 %begins, %not.steady    ; a trial's first run warms up
  br i1 %cold, label %next, label %update
update:
  %unknown = icmp eq i64 %mean, 0
  %most = shl i64 %mean, 2
  %clipped = call i64 @llvm.umin.i64(i64 %spent, i64 %most)
  %change = sub i64 %clipped, %mean
  %slow = ashr i64 %change, 2
  %quick = ashr i64 %change, 1
  %step = select i1 %steady, i64 %slow, i64 %quick
  %moved = add i64 %mean, %step
  %mean.new = select i1 %unknown, i64 %spent, i64 %moved
  store i64 %mean.new, ptr %mean.at
  %chosen = load i64, ptr %chosen.at
  %quarter = lshr i64 %chosen, 2
  %limit = add i64 %chosen, %quarter
  %slower = icmp ugt i64 %mean.new, %limit
  %changed = and i1 %slower, %steady     ; no longer what it was when it was chosen
  br i1 %changed, label %over, label %next
next:
  %left.next = sub i64 %left, 1
  store i64 %left.next, ptr %left.at
  %more = icmp ne i64 %left.next, 0
  br i1 %more, label %end, label %over
over:
  switch i64 %state, label %choose [ i64 0, label %to.1
                                     i64 2, label %to.4
                                     i64 3, label %to.5 ]
to.1:
  br label %trial
to.4:
  br label %trial
to.5:
  br label %trial
trial:
  %new = phi i64 [ 1, %to.1 ], [ 4, %to.4 ], [ 5, %to.5 ]
  store i64 $TRIAL, ptr %left.at
  store i64 %new, ptr %state.at
  ret void
choose:
  %together.mean = load i64, ptr %site
  %alone.at = getelementptr i64, ptr %site, i64 1
  %alone.mean = load i64, ptr %alone.at
  %t.more = mul i64 %together.mean, 33
  %t.less = mul i64 %together.mean, 32
  %a.more = mul i64 %alone.mean, 33
  %a.less = mul i64 %alone.mean, 32
  %leave.team = icmp ult i64 %a.more, %t.less
  %stay.alone = icmp uge i64 %t.more, %a.less
  %was.alone = icmp eq i64 %state, 5
  %to.alone = select i1 %was.alone, i1 %stay.alone, i1 %leave.team
  %best = select i1 %to.alone, i64 %alone.mean, i64 %together.mean
  %worst = select i1 %to.alone, i64 %together.mean, i64 %alone.mean
  %loss = sub i64 %worst, %best
  %lost = call i64 @llvm.smax.i64(i64 %loss, i64 0)
  %scaled = mul i64 %lost, $PATIENCE
  %best.some = call i64 @llvm.smax.i64(i64 %best, i64 1)
  %runs.wanted = udiv i64 %scaled, %best.some
  %stayed.alone = and i1 %was.alone, %to.alone
  %was.team = icmp eq i64 %state, 4
  %to.team = xor i1 %to.alone, true
  %stayed.team = and i1 %was.team, %to.team
  %stayed = or i1 %stayed.alone, %stayed.team
  %cap.at = getelementptr i64, ptr %site, i64 5
  %cap.old = load i64, ptr %cap.at
  %cap.twice = shl i64 %cap.old, 1
  %cap.most = call i64 @llvm.umin.i64(i64 %cap.twice, i64 1024)
  %cap = select i1 %stayed, i64 %cap.most, i64 $SOONEST
  store i64 %cap, ptr %cap.at
  %in.time = udiv i64 $RECHECK, %best.some
  %cap.time = select i1 %to.alone, i64 %in.time, i64 %cap
  %cap.both = call i64 @llvm.umin.i64(i64 %cap, i64 %cap.time)
  %runs.most = call i64 @llvm.umin.i64(i64 %runs.wanted, i64 %cap.both)
  %runs.next = call i64 @llvm.smax.i64(i64 %runs.most, i64 $SOONEST)
  store i64 %runs.next, ptr %left.at
  store i64 %best, ptr %chosen.at
  %steady.state = select i1 %to.alone, i64 3, i64 2
  store i64 %steady.state, ptr %state.at
  ret void
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
  %thread = load i64, ptr %thread.at
  call i32 @pthread_join(i64 %thread, ptr null)
  br label %next
free:
  %pair = cmpxchg ptr @pool, ptr %p, ptr null acq_rel monotonic
  call i32 @munmap(ptr %p, i64 $BYTES)
  br label %end
end:
  ret void
}
