; The judge: whether a network's runs share their work, or stay on their caller's thread.
;
; A site, times in nanoseconds: mean of a run on the team, alone; runs in this state, state; of the
; choice: the mean, how long until the other way is tried again, when it was made, and runs until
; then at least.
; States: 0 the team at first, 1 alone at first; 2 the team, 3 alone; 4 (from 2) alone on trial,
; 5 (from 3) the team on trial; 6 the team and 7 alone once more, since being alone has won once.
; A run: when it began (0: it is not judged), its state. Of short ones, every eighth is judged.

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
  %alone = call i1 @alone(i64 %state)
  %own.at = zext i1 %alone to i64
  %mean.at = getelementptr i64, ptr %site, i64 %own.at
  %mean = load i64, ptr %mean.at
  %short = icmp ult i64 %mean, $SHORT
  %steady.bits = lshr i64 12, %state     ; states 2 and 3
  %steady = trunc i64 %steady.bits to i1
  %made.at = getelementptr i64, ptr %site, i64 2
  %made = load i64, ptr %made.at
  %turn = and i64 %made, 7
  %not.its.turn = icmp ne i64 %turn, 0
  %y = and i1 %short, %steady
  %pass = and i1 %y, %not.its.turn       ; looking at the clock would take a share of such a run
  br i1 %pass, label %uncounted, label %timed
uncounted:
  %made.next = add i64 %made, 1
  store i64 %made.next, ptr %made.at
  br label %go
timed:
  %taken.at = getelementptr i64, ptr %run, i64 1
  store i64 %state, ptr %taken.at
  %began = call i64 @now()
  store i64 %began, ptr %run
  br label %go
go:
  br i1 %alone, label %caller, label %team
caller:
  ret i32 1
team:
  %team.mean = load i64, ptr %site
  %alone.at = getelementptr i64, ptr %site, i64 1
  %alone.mean = load i64, ptr %alone.at
  %some = lshr i64 %team.mean, 4
  %more = add i64 %team.mean, %some
  %tried = icmp ugt i64 %alone.mean, %more
  %chosen = icmp eq i64 %state, 2
  %pays = and i1 %tried, %chosen         ; else it may be that nothing will be shared
  br i1 %pays, label %up, label %all
up:
  %helpers = sub i32 %several, 1
  call void @rouse_all(ptr %p, i32 %helpers)
  br label %all
all:
  ret i32 %threads
}

; whether runs in a state are on one thread
define internal i1 @alone(i64 %state) nounwind {
  %bits = lshr i64 154, %state           ; states 1, 3, 4 and 7
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
  %here = call i64 @now()
  %spent = sub i64 %here, %began
  %taken.at = getelementptr i64, ptr %run, i64 1
  %taken = load i64, ptr %taken.at
  call void @tw_judge(ptr %site, i64 %taken, i64 %spent, i64 %here)
  br label %end
end:
  ret void
}

; a run in a state took so long and ended at a time
define void @tw_judge(ptr %site, i64 %taken, i64 %spent, i64 %time) nounwind {
entry:
  %alone.at = getelementptr i64, ptr %site, i64 1
  %runs.at = getelementptr i64, ptr %site, i64 2
  %state.at = getelementptr i64, ptr %site, i64 3
  %chosen.at = getelementptr i64, ptr %site, i64 4
  %pause.at = getelementptr i64, ptr %site, i64 5
  %since.at = getelementptr i64, ptr %site, i64 6
  %fewest.at = getelementptr i64, ptr %site, i64 7
  %state = load i64, ptr %state.at
  %stale = icmp ne i64 %taken, %state
  br i1 %stale, label %end, label %sample
sample:
  %runs.before = load i64, ptr %runs.at
  %runs = add i64 %runs.before, 1
  store i64 %runs, ptr %runs.at
  %alone = call i1 @alone(i64 %state)
  %own.at = select i1 %alone, ptr %alone.at, ptr %site
  %other.at = select i1 %alone, ptr %site, ptr %alone.at
  %mean = load i64, ptr %own.at
  %other = load i64, ptr %other.at
  %steady.bits = lshr i64 12, %state     ; states 2 and 3
  %steady = trunc i64 %steady.bits to i1
  br i1 %steady, label %follow, label %try

follow:
  %most = shl i64 %mean, 1               ; a single run that was held up says little
  %clipped = call i64 @llvm.umin.i64(i64 %spent, i64 %most)
  %change = sub i64 %clipped, %mean
  %step = ashr i64 %change, 3
  %followed = add i64 %mean, %step
  store i64 %followed, ptr %own.at
  %chosen = load i64, ptr %chosen.at
  %quarter = lshr i64 %chosen, 2
  %limit = add i64 %chosen, %quarter
  %slower = icmp ugt i64 %followed, %limit   ; no longer what it was when it was chosen
  %again = icmp uge i64 %runs, $SOONEST
  %early = and i1 %slower, %again
  %since = load i64, ptr %since.at
  %pause = load i64, ptr %pause.at
  %passed = sub i64 %time, %since
  %later = icmp uge i64 %passed, %pause
  %fewest = load i64, ptr %fewest.at
  %enough = icmp uge i64 %runs, %fewest
  %due = and i1 %later, %enough
  %go = or i1 %early, %due
  %trial = select i1 %alone, i64 5, i64 4
  br i1 %go, label %begin, label %end

try:                                     ; the first run warms up, unless it is good already
  %cold = icmp eq i64 %runs, 1
  %none = icmp eq i64 %mean, 0
  %sum = add i64 %mean, %spent
  %half = lshr i64 %sum, 1
  %tried = select i1 %none, i64 %spent, i64 %half
  %known = icmp ne i64 %other, 0
  %eighth = lshr i64 %other, 3
  %low = sub i64 %other, %eighth
  %much = lshr i64 %other, 1
  %high = add i64 %other, %much
  %is.won = icmp ult i64 %tried, %low
  %won = and i1 %known, %is.won
  %is.lost = icmp ugt i64 %tried, %high
  %lost = and i1 %known, %is.lost
  %not.won = xor i1 %won, true
  %passes = and i1 %cold, %not.won
  br i1 %passes, label %end, label %count
count:
  store i64 %tried, ptr %own.at
  %start = icmp eq i64 %state, 0
  %length = select i1 %start, i64 $FIRST, i64 $TRIAL
  %all = icmp uge i64 %runs, %length
  %clear = or i1 %won, %lost
  %over = or i1 %all, %clear
  br i1 %over, label %next, label %end
next:
  %first.bits = lshr i64 65, %state      ; states 0 and 6
  %first = trunc i64 %first.bits to i1
  %after = add i64 %state, 1
  br i1 %first, label %begin, label %choose
begin:                                   ; the other way, from its first run on
  %new = phi i64 [ %trial, %follow ], [ %after, %next ]
  store i64 0, ptr %other.at
  store i64 0, ptr %runs.at
  store i64 %new, ptr %state.at
  ret void

choose:
  %team.mean = load i64, ptr %site
  %alone.mean = load i64, ptr %alone.at
  %t.more = mul i64 %team.mean, 33
  %t.less = mul i64 %team.mean, 32
  %a.more = mul i64 %alone.mean, 33
  %a.less = mul i64 %alone.mean, 32
  %leave.team = icmp ult i64 %a.more, %t.less
  %stay.alone = icmp uge i64 %t.more, %a.less
  %was.alone = icmp eq i64 %state, 5
  %to.alone = select i1 %was.alone, i1 %stay.alone, i1 %leave.team
  store i64 0, ptr %runs.at
  %confirmed.bits = lshr i64 160, %state     ; states 5 and 7
  %confirmed = trunc i64 %confirmed.bits to i1
  %unconfirmed = xor i1 %confirmed, true
  %first.time = and i1 %to.alone, %unconfirmed
  br i1 %first.time, label %confirm, label %settle
confirm:
  store i64 0, ptr %site
  store i64 6, ptr %state.at
  ret void
settle:
  %was.team = icmp eq i64 %state, 4
  %stayed = select i1 %to.alone, i1 %was.alone, i1 %was.team
  %pause.old = load i64, ptr %pause.at
  %pause.twice = shl i64 %pause.old, 1
  %pause.most = call i64 @llvm.umin.i64(i64 %pause.twice, i64 $LONGEST)
  %pause.new = select i1 %stayed, i64 %pause.most, i64 $SHORTEST
  store i64 %pause.new, ptr %pause.at
  store i64 %time, ptr %since.at
  %best = select i1 %to.alone, i64 %alone.mean, i64 %team.mean
  store i64 %best, ptr %chosen.at
  %worst = select i1 %to.alone, i64 %team.mean, i64 %alone.mean
  %more = sub i64 %worst, %best
  %loss = call i64 @llvm.smax.i64(i64 %more, i64 0)
  br i1 %to.alone, label %to.3, label %to.2
to.3:                                    ; who was in the way may go at any time
  %loss.most = call i64 @llvm.umin.i64(i64 %loss, i64 %best)
  %worth = mul i64 %loss.most, $DEAR
  %pause.worth = call i64 @llvm.smax.i64(i64 %worth, i64 %pause.new)
  store i64 %pause.worth, ptr %pause.at
  store i64 $SOONEST, ptr %fewest.at
  store i64 3, ptr %state.at
  ret void
to.2:
  %scaled = mul i64 %loss, $PATIENCE
  %best.some = call i64 @llvm.smax.i64(i64 %best, i64 1)
  %fair = udiv i64 %scaled, %best.some
  %fair.most = call i64 @llvm.umin.i64(i64 %fair, i64 $MOST)
  %fair.some = call i64 @llvm.smax.i64(i64 %fair.most, i64 $SOONEST)
  store i64 %fair.some, ptr %fewest.at
  store i64 2, ptr %state.at
  ret void
end:
  ret void
}
