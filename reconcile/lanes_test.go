package reconcile

import "testing"

// TestOneRepositoryLeavesAWorker: its passes are as many as there are workers, less one.
func TestOneRepositoryLeavesAWorker(t *testing.T) {
	for name, c := range map[string]struct{ workers, want int }{"four workers": {4, 3}, "two workers": {2, 1}, "one worker": {1, 1}} {
		t.Run(name, func(t *testing.T) {
			var l lanes
			l.among(c.workers)
			var leave func()
			for range c.want {
				if leave = l.enter("heavy"); leave == nil {
					t.Fatalf("fewer than %d passes of one repository", c.want)
				}
			}
			if l.enter("heavy") != nil {
				t.Errorf("more than %d passes of one repository", c.want)
			}
			if l.enter("light") == nil {
				t.Error("no pass of another repository")
			}
			leave()
			if l.enter("heavy") == nil {
				t.Error("no pass after one has ended")
			}
		})
	}
}

// TestAPassWithoutALaneIsTriedAgain, and has done nothing.
func TestAPassWithoutALaneIsTriedAgain(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	b.lanes.among(2)
	leave := b.lanes.enter("https://git.example.com/acme/fleet.git")
	before := *b.patches
	if got := b.reconcile(); got.RequeueAfter != crowded || *b.patches != before || len(b.source.requests) > 0 {
		t.Errorf("tried again after %s, want %s, with %d patches and %d fetches, want none", got.RequeueAfter, crowded, *b.patches-before, len(b.source.requests))
	}
	leave()
	if b.reconcile(); *b.patches == before {
		t.Error("no pass when there was a lane")
	}
	if len(b.lanes.running) > 0 {
		t.Errorf("passes that have ended count: %v", b.lanes.running)
	}
}
