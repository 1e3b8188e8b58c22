package recorder

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// round processes what the watch has reported, and writes it if that is due, or in the last round. It returns when the
// next round is due.
func (r *Recorder) round(ctx context.Context, last bool) (wait time.Duration, err error) {
	if !r.loaded {
		if err := r.load(ctx); err != nil {
			return 0, err
		}
		r.loaded = true
	}
	now := r.Now()
	if r.began.IsZero() {
		r.began = now
	}
	all, heard := r.snapshot()
	if heard {
		if err := r.readPools(ctx); err != nil {
			return 0, err
		}
	}
	if err := r.enrich(ctx, all); err != nil {
		return 0, err
	}
	if err := r.begin(ctx, heard, all); err != nil {
		return 0, err
	}
	if !last {
		r.countPods(ctx, all, now)
	}
	if due := r.wrote.Add(writeInterval); !last && now.Before(due) {
		r.keep(all)
		return min(due.Sub(now), r.nextHeartbeat(now)), nil
	}
	err = r.record(ctx, all, now, last)
	r.settle(all, now)
	if err != nil {
		return 0, err
	}
	wait = r.nextHeartbeat(now)
	if len(all) > 0 {
		wait = min(wait, settlePeriod)
	}
	return wait, nil
}

// snapshot returns the current state of the terminating NodeClaims.
func (r *Recorder) snapshot() (all map[types.UID]termination, heard bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all = make(map[types.UID]termination, len(r.seen))
	for uid, e := range r.seen {
		all[uid] = *e
	}
	return all, r.watching
}

// keep stores what the loop has found about them, in addition to what the watch reports meanwhile.
func (r *Recorder) keep(all map[types.UID]termination) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, found := range all {
		e := r.seen[uid]
		if e == nil {
			continue
		}
		e.of, e.enriched, e.before, e.askAt = found.of, found.enriched, found.before, found.askAt
		e.seq, e.numbered, e.body, e.unsaved = found.seq, found.numbered, found.body, found.unsaved
		f := &e.facts
		f.PoolGone, f.Static, f.Removing, f.Condition = found.facts.PoolGone, found.facts.Static, found.facts.Removing, found.facts.Condition
		f.Revision, f.ByRevision, f.DriftInputs, f.EC2 = found.facts.Revision, found.facts.ByRevision, found.facts.DriftInputs, found.facts.EC2
		f.Pods, f.NodeGone = found.facts.Pods, found.facts.NodeGone
	}
}

// settle drops those that are terminated and written, those that belong to no NodeSync, and the oldest of those that
// cannot be written.
func (r *Recorder) settle(all map[types.UID]termination, now time.Time) {
	r.keep(all)
	r.mu.Lock()
	defer r.mu.Unlock()
	var unwritten []types.UID
	for uid, found := range all {
		e := r.seen[uid]
		written := found.body != "" && !found.unsaved || found.of == owner{}
		switch {
		case e == nil || found.facts.Gone.IsZero():
		case written && now.Sub(found.facts.Gone.Time) >= asksFor, written && now.Sub(found.facts.Gone.Time) >= settlePeriod && !r.mayAsk(found):
			delete(r.seen, uid)
		case !written:
			unwritten = append(unwritten, uid)
		}
	}
	slices.SortFunc(unwritten, func(a, b types.UID) int { return all[a].facts.End().Compare(all[b].facts.End()) })
	for _, uid := range unwritten[:max(0, len(unwritten)-maxUnwritten)] {
		delete(r.seen, uid)
	}
}

// record writes what has changed in the Records, and the time up to which everything is recorded.
func (r *Recorder) record(ctx context.Context, all map[types.UID]termination, now time.Time, last bool) error {
	events, noEvents := r.warnings(ctx, all)
	for uid, e := range all {
		e.facts.Events, e.facts.NoEvents = events[uid], noEvents != nil
		all[uid] = e
	}
	if !last {
		r.askEC2(ctx, all, now)
		r.noteForeign(all, now)
	}
	lines, err := r.number(all)
	if err != nil {
		return err
	}
	failures := []error{noEvents}
	for _, name := range slices.SortedFunc(maps.Keys(r.logs), byName) {
		b := r.logs[name]
		maps.Copy(lines[name], b.late)
		if len(lines[name]) == 0 && !last && !b.due(now) {
			continue
		}
		r.wrote = now
		if err := r.writeLog(ctx, b, lines[name], now); err != nil {
			failures = append(failures, err)
			continue
		}
		b.late = nil
		for uid, e := range all {
			if line, written := lines[name][e.seq]; written && e.unsaved && e.of.NamespacedName == name {
				e.body, e.unsaved = bodyOf(line), false
				all[uid] = e
			}
		}
	}
	return errors.Join(failures...)
}

// number numbers new ones, and returns the lines that have changed. One that was overwritten by newer ones gets a new
// number if there is more to write about it.
func (r *Recorder) number(all map[types.UID]termination) (map[types.NamespacedName]map[int]string, error) {
	lines := map[types.NamespacedName]map[int]string{}
	for name := range r.logs {
		lines[name] = map[int]string{}
	}
	for _, uid := range inOrder(all) {
		e := all[uid]
		b := r.logs[e.of.NamespacedName]
		if e.of == (owner{}) || b == nil {
			continue
		}
		record := e.record()
		line, err := record.format(e.seq)
		if err != nil {
			return nil, err
		}
		if bodyOf(line) == e.body {
			continue
		}
		if !e.numbered || e.seq < b.next-r.ring.capacity() {
			e.seq, e.numbered = b.next, true
			b.next++
			if line, err = record.format(e.seq); err != nil {
				return nil, err
			}
		}
		e.unsaved = true
		all[uid] = e
		lines[b.of.NamespacedName][e.seq] = line
	}
	return lines, nil
}

// bodyOf returns a line without its number.
func bodyOf(line string) string {
	_, body, _ := strings.Cut(line, "\t")
	return body
}

// record returns the Record to write: what an earlier leader saw when the termination started applies if this leader
// has not seen it.
func (e termination) record() Record {
	record := e.facts.Record
	record.Cause, record.Detail = Judge(e.facts)
	if e.before == nil {
		return e.attributed(record)
	}
	if (record.Cause == ByHand || record.Cause == Unknown) && e.before.Cause != ByHand && e.before.Cause != Unknown {
		record.Cause, record.Detail = e.before.Cause, e.before.Detail
	}
	if record.Cause == e.before.Cause && strings.HasPrefix(e.before.Detail, record.Detail+":") {
		record.Detail = e.before.Detail // with inputs, from a rollout that may be complete
	}
	record.Revision, record.ByRevision = e.before.Revision, e.before.ByRevision
	return record
}

// attributed adds the revision that caused the termination.
func (e termination) attributed(record Record) Record {
	switch record.Cause {
	case Removed:
		record.Revision, record.ByRevision = e.facts.Removing, true
	case Drifted:
	default:
		record.ByRevision = false
	}
	return record
}

// writeLog writes lines, one segment at a time, and with the last one the time up to which everything is recorded: a
// daemon that is killed in between has not claimed that.
func (r *Recorder) writeLog(ctx context.Context, b *logState, lines map[int]string, now time.Time) error {
	bySegment := map[int]map[int]string{}
	for seq, line := range lines {
		at := r.ring.segmentOf(seq)
		if bySegment[at] == nil {
			bySegment[at] = map[int]string{}
		}
		bySegment[at][seq] = line
	}
	if len(bySegment) == 0 || !b.gap.To.IsZero() && bySegment[0] == nil {
		bySegment[0] = nil
	}
	// If there is a Gap to write, segment 0 is last: the Gap ends with what is found then.
	order := slices.Sorted(maps.Keys(bySegment))
	slices.Reverse(order)
	for i, at := range order {
		c := change{segment: at, lines: bySegment[at]}
		if i == len(order)-1 && b.covered() {
			c.until = now.Add(-observeDelay)
		}
		if at == 0 {
			c.gap = b.gap
		}
		if err := r.write(ctx, b.of, c); err != nil {
			return err
		}
		if at == 0 {
			b.gap = Gap{}
		}
	}
	if b.covered() {
		b.until = metav1.NewTime(now.Add(-observeDelay))
	}
	return nil
}

// nextHeartbeat returns when the next NodeSync with nothing to write is due.
func (r *Recorder) nextHeartbeat(now time.Time) time.Duration {
	wait := heartbeat
	for _, b := range r.logs {
		if b.due(now) {
			return writeInterval
		}
		wait = min(wait, b.until.Add(heartbeat).Sub(now))
	}
	return max(wait, roundInterval)
}

// inOrder returns those that are terminating, in the order in which their deletion started.
func inOrder(all map[types.UID]termination) []types.UID {
	return slices.SortedFunc(maps.Keys(all), func(a, b types.UID) int {
		if at := all[a].facts.Deleted.Compare(all[b].facts.Deleted.Time); at != 0 {
			return at
		}
		return strings.Compare(all[a].facts.NodeClaim, all[b].facts.NodeClaim)
	})
}
