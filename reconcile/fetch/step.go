// Package fetch has the newest revision of a NodeSync's repository, or the one at hand
// where none is due, with the signatures that it needs. What is fetched when is decided
// here; reconcile/source speaks to the Git host.
package fetch

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// Source fetches revisions.
type Source interface {
	// Fetch returns the newest revision, and when the fetch began that it came
	// of: it may have been made for another NodeSync.
	Fetch(ctx context.Context, req source.Request) (*render.Snapshot, time.Time, error)
	// Artifact returns the newest artifact of a source of Flux, and has the NodeSync woken when there is
	// another one.
	Artifact(ctx context.Context, of types.NamespacedName, ref v1alpha1.SourceRef) (*source.Artifact, error)
	// Verify says who has signed what the last Snapshot is of.
	Verify(ctx context.Context, req source.Request, want source.Signatures) (source.Verified, error)
	// Since lists the commits that the last Snapshot reaches and the applied one
	// does not, and that changed an input, newest first, where they are known without
	// asking anybody; FindSince asks the host.
	Since(ctx context.Context, key, applied string, read render.Read, limit int) (commits []string, known bool)
	FindSince(ctx context.Context, req source.Request, applied string, read render.Read, limit int) ([]string, error)
	// Order says how the last Snapshot stands to a commit, as far as that is known
	// without asking anybody; FindOrder asks the host.
	Order(key, commit string) source.Order
	FindOrder(ctx context.Context, req source.Request, commit string) (source.Order, error)
	// Revert pushes a commit that takes files back, to a branch of its own.
	Revert(ctx context.Context, req source.Request, r source.Revert) (source.Reverted, error)
	// Forget drops what is stored for a NodeSync that is gone.
	Forget(key string) error
}

// Tools are what a fetch needs.
type Tools struct {
	Source Source
	// Secret reads a Secret of the NodeSync's namespace.
	Secret func(ctx context.Context, name string) (*corev1.Secret, error)
	Grants grant.Policy
	// HideCredential gets what came out of Secrets, before anything else is reported.
	HideCredential func(secret string)
}

// Step fetches for one pass, and notes in the status what it has fetched and verified.
type Step struct {
	Tools
	finding.Findings
	Sync   *v1alpha1.NodeSync
	Memory *Memory
	Now    time.Time
	// Pushed is when a host said last that there is something new.
	Pushed time.Time

	// Unverified is why the revision does not have the signatures that it needs.
	Unverified error
}

// Fetched is what a pass goes by.
type Fetched struct {
	Snapshot *render.Snapshot
	// Unfetched is why the source could not be fetched, where the Snapshot is the last
	// one of this very spec: it is the newest that is known, so that drift is corrected
	// and removals that have begun go on while a Git host is away.
	Unfetched error
	// News is when the fetch began that came first to this commit; zero where another
	// one has.
	News time.Time
}

// Memory is what one fetch leaves to the next. Losing it costs a fetch and nothing else.
type Memory struct {
	// The last fetch: when it began, what for, and why it failed where it did.
	fetchedAt time.Time
	// wanted is the time since which a step wants Git to have been read.
	wanted     time.Time
	fetchedFor Attempt
	failure    error
	// The last Snapshot, the generation of the NodeSync that it is of, and when its
	// fetch began.
	snapshot   *render.Snapshot
	snapshotOf int64
	snapshotAt time.Time

	// The revision that could not be verified.
	unverified unverified
}

// Attempt is what makes a fetch due before its time.
type Attempt struct {
	generation int64
	requested  string
}

// Last is the last Snapshot, the generation of the NodeSync that it is of, and when its
// fetch began; nil where there is none.
func (m *Memory) Last() (snapshot *render.Snapshot, generation int64, began time.Time) {
	return m.snapshot, m.snapshotOf, m.snapshotAt
}

// Attempt is what was fetched for last.
func (m *Memory) Attempt() Attempt { return m.fetchedFor }

// Lose has the next pass fetch what is at hand once more: its store is gone.
func (m *Memory) Lose() { m.snapshot = nil }

func (s *Step) name() types.NamespacedName { return client.ObjectKeyFromObject(s.Sync) }
