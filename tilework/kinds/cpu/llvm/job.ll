; Regions: how their work is cut, shared and waited for.
;
; A job: 0 region, 8 bases, 16 extent, 24 chunks, 32 threads, 40 the caller's core, 48 the caller;
; then the shares, 64 bytes apart: the first chunk in the lower half, the end in the upper one.

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
  %caller.at = getelementptr i8, ptr %job, i64 48
  %caller = call ptr @pthread_self()
  store ptr %caller, ptr %caller.at
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
  %a = phi i32 [ 0, %cuts ], [ %a.next, %assign ]
  %a.slot = getelementptr ptr, ptr %hired, i32 %a
  %a.w = load ptr, ptr %a.slot
  %a.job = getelementptr i8, ptr %a.w, i64 8
  store ptr %job, ptr %a.job
  %a.next = add i32 %a, 1
  %a.number = zext i32 %a.next to i64
  %a.number.at = getelementptr i8, ptr %a.w, i64 16
  store i64 %a.number, ptr %a.number.at
  %a.old = atomicrmw xchg ptr %a.w, i32 2 seq_cst
  call void @rouse(ptr %p, ptr %a.w)
  %a.more = icmp slt i32 %a.next, %got
  br i1 %a.more, label %assign, label %own
own:
  call void @count(ptr %p, i64 $N_SHARED, i64 1)
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
  br i1 %r.won, label %revoked, label %wait
revoked:
  call void @count(ptr %p, i64 $N_TAKEN_BACK, i64 1)
  br label %dismissed
wait:
  call void @await(ptr %p, ptr %g.w, ptr %job)
  br label %dismiss
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

; until a helper is done. One that makes no headway, since others keep its core busy, is lent the
; caller's, which has nothing else to do
define internal void @await(ptr %p, ptr %w, ptr %job) nounwind {
entry:
  %seen = alloca [2 x i64]
  %cpu.seen.at = getelementptr i64, ptr %seen, i64 1
  %since = call i64 @now()
  store i64 %since, ptr %seen
  store i64 -1, ptr %cpu.seen.at
  call void @count(ptr %p, i64 $N_WAITED, i64 1)
  br label %look
look:
  %n = phi i64 [ 0, %entry ], [ %n.next, %spin ], [ 0, %soon ]
  %state = load atomic i32, ptr %w acquire, align 4
  %done = icmp eq i32 %state, 5
  br i1 %done, label %over, label %spin
spin:
  $PAUSE
  %n.next = add i64 %n, 1
  %often = icmp ult i64 %n.next, 16
  br i1 %often, label %look, label %time
time:
  %here = call i64 @now()
  %stalled = call i1 @stalled(ptr %w, ptr %seen, i64 %here)
  br i1 %stalled, label %lend, label %soon
soon:
  %spent = sub i64 %here, %since
  %still = icmp ult i64 %spent, $WAIT
  br i1 %still, label %look, label %tell
lend:
  %lent.at = getelementptr i8, ptr %w, i64 40
  store atomic i32 1, ptr %lent.at monotonic, align 4
  %core = call i32 @sched_getcpu()
  %brought = call i1 @bring(ptr %w, i32 %core)
  %one = zext i1 %brought to i64
  call void @count(ptr %p, i64 $N_LENT, i64 %one)
  br label %tell
tell:
  %given = phi i1 [ false, %soon ], [ %brought, %lend ]
  %w.pair = cmpxchg ptr %w, i32 3, i32 4 acq_rel monotonic
  br label %nap
nap:
  %w.now = load atomic i32, ptr %w acquire, align 4
  %w.done = icmp eq i32 %w.now, 5
  br i1 %w.done, label %return, label %down
down:
  %time.at = select i1 %given, ptr null, ptr @nap
  call void @sleep(ptr %w, i32 4, ptr %time.at)
  br i1 %given, label %nap, label %check
check:
  %up = call i64 @now()
  %stalls = call i1 @stalled(ptr %w, ptr %seen, i64 %up)
  br i1 %stalls, label %lend, label %nap
return:
  br i1 %given, label %back, label %over
back:                                    ; the core is the caller's again
  %self.at = getelementptr i8, ptr %job, i64 48
  %self = load ptr, ptr %self.at
  %core.now = call i32 @sched_getcpu()
  %away = call i1 @keep_off(ptr %w, ptr %self, i32 %core.now)
  br label %over
over:
  %end = call i64 @now()
  %took = sub i64 %end, %since
  call void @count(ptr %p, i64 $N_WAITED_NS, i64 %took)
  ret void
}
@nap = internal constant [2 x i64] [i64 0, i64 $LOOK_ASLEEP]

; whether a helper had less than a quarter of the time since it was last looked at, if that is
; long enough to say so; the time and what it had had are kept
define internal i1 @stalled(ptr %w, ptr %seen, i64 %here) nounwind {
entry:
  %id = alloca i32
  %t = alloca [2 x i64]
  %before = load i64, ptr %seen
  %passed = sub i64 %here, %before
  %enough = icmp ugt i64 %passed, $LOOK
  br i1 %enough, label %ask, label %no
ask:
  %thread.at = getelementptr i8, ptr %w, i64 24
  %thread = load ptr, ptr %thread.at
  %failed = call i32 @pthread_getcpuclockid(ptr %thread, ptr %id)
  %good = icmp eq i32 %failed, 0
  br i1 %good, label %read, label %no
read:
  %which = load i32, ptr %id
  %unread = call i32 @clock_gettime(i32 %which, ptr %t)
  %is.read = icmp eq i32 %unread, 0
  br i1 %is.read, label %compare, label %no
compare:
  %cpu = call i64 @nanoseconds(ptr %t)
  %cpu.at = getelementptr i64, ptr %seen, i64 1
  %cpu.before = load i64, ptr %cpu.at
  store i64 %here, ptr %seen
  store i64 %cpu, ptr %cpu.at
  %first = icmp eq i64 %cpu.before, -1
  %had = sub i64 %cpu, %cpu.before
  %four = shl i64 %had, 2
  %little = icmp ult i64 %four, %passed
  %known = xor i1 %first, true
  %stalls = and i1 %known, %little
  ret i1 %stalls
no:
  ret i1 false
}
