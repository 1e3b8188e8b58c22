package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/fetch"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// fakeSource returns a new commit for each fetch, or fails. A fetch began earlier by behind: it was made for another
// NodeSync.
type fakeSource struct {
	fetch.Source // nothing is queried for Flux
	clock        *clock
	behind       time.Duration
	err          error
	files        fstest.MapFS
	requests     []source.Request
	deadline     bool
	// during runs while a fetch is in progress.
	during func()
	// before runs before the history is queried.
	before func()
	// commits answer Since, unless unknown is why they cannot; asked is since when.
	commits []string
	unknown error
	asked   []string
	// orders are the last Snapshot's order to commits; nil if it is newer than any. found is what the host knows about
	// it, and ordered the commits of the queries.
	orders, found map[string]source.Order
	ordered       []string
	// verified answers Verify, or unsigned is why it fails; wanted is the request.
	verified source.Verified
	unsigned error
	wanted   []source.Signatures
	// forgotten are the keys of stores that were dropped.
	forgotten []string
	// branch and records are what spec.promotion reads, picked the commit that was taken, and pushes the records that
	// were pushed.
	branch  []source.BranchCommit
	records source.Records
	picked  string
	pushes  chan []byte
}

func (f *fakeSource) Records(string) source.Records { return f.records }

func (f *fakeSource) Branch(context.Context, source.Request, source.BranchQuery) (source.Branch, error) {
	return source.Branch{Tip: f.branch[0].Hash, Commits: f.branch}, nil
}

func (f *fakeSource) Pick(_ context.Context, _ source.Request, commit string) (*render.Snapshot, error) {
	f.picked = commit
	return &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit, FS: f.files}, nil
}

func (f *fakeSource) PushRecord(_ context.Context, _ source.Request, refs []string, data []byte) (string, error) {
	f.pushes <- data
	return refs[0], nil
}

// awaitPush returns the next record that is pushed.
func (f *fakeSource) awaitPush(t *testing.T) []byte {
	t.Helper()
	select {
	case data := <-f.pushes:
		return data
	case <-t.Context().Done():
	case <-time.After(time.Minute):
	}
	t.Fatal("no record was pushed")
	return nil
}

func (f *fakeSource) Fetch(ctx context.Context, req source.Request) (*render.Snapshot, time.Time, error) {
	_, f.deadline = ctx.Deadline()
	f.requests = append(f.requests, req)
	began := f.clock.now().Add(-f.behind)
	if f.during != nil {
		f.during()
	}
	if f.err != nil {
		return nil, began, f.err
	}
	commit := fmt.Sprintf("%040d", len(f.requests))
	return &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit, FS: f.files}, began, nil
}

// Since returns nothing: the store was cloned since.
func (f *fakeSource) Since(context.Context, string, string, render.Read, int) ([]string, bool) {
	return nil, false
}

func (f *fakeSource) FindSince(_ context.Context, _ source.Request, applied string, _ render.Read, _ int) ([]string, error) {
	if f.before != nil {
		f.before()
	}
	f.asked = append(f.asked, applied)
	return f.commits, f.unknown
}

func (f *fakeSource) Verify(_ context.Context, _ source.Request, want source.Signatures) (source.Verified, error) {
	f.wanted = append(f.wanted, want)
	return f.verified, f.unsigned
}

func (f *fakeSource) Order(_, commit string) source.Order {
	if f.orders == nil {
		return source.OrderNewer
	}
	return f.orders[commit]
}

func (f *fakeSource) FindOrder(_ context.Context, _ source.Request, commit string) (source.Order, error) {
	f.ordered = append(f.ordered, commit)
	if found := f.found[commit]; found != source.OrderUnknown {
		return found, nil
	}
	return source.OrderUnknown, &source.HistoryError{Since: commit, Reason: "the host does not give it out"}
}

// Revert is not used here.
func (f *fakeSource) Revert(context.Context, source.Request, source.Revert) (source.Reverted, error) {
	return source.Reverted{}, errors.New("no proposals here")
}

func (f *fakeSource) Forget(key string) error {
	f.forgotten = append(f.forgotten, key)
	return nil
}

func (*fakeSource) Change(context.Context, source.Request, source.Change) (source.Changed, error) {
	return source.Changed{}, nil
}

func (*fakeSource) CheckBranch(context.Context, source.Request, source.Change, string) error {
	return nil
}

func (*fakeSource) DeleteBranch(context.Context, source.Request, source.Change, string) error {
	return nil
}
