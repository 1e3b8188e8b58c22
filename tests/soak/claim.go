package soak

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

const (
	// noticed is how long an undisturbed daemon may leave a manual edit uncorrected while its status reports a success.
	noticed = 30 * time.Second
	// glimpsed is how long anything else may be untrue: the parts of one check are not read at the same time.
	glimpsed = 5 * time.Second
)

// claim is what a NodeSync reports.
type claim struct {
	commit string
	ready  bool
}

func (s *soak) sync(ctx context.Context) (*unstructured.Unstructured, error) {
	return s.objects.Resource(syncResource).Namespace(daemon.Namespace).Get(ctx, syncName, metav1.GetOptions{})
}

func claimOf(sync *unstructured.Unstructured) claim {
	revision, _, _ := unstructured.NestedString(sync.Object, "status", "lastAppliedRevision")
	_, commit, _ := strings.Cut(revision, "sha1:")
	return claim{commit: commit, ready: condition(sync, "Ready")["status"] == "True"}
}

// condition returns the fields of a condition.
func condition(object *unstructured.Unstructured, kind string) map[string]any {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range all {
		if fields, ok := one.(map[string]any); ok && fields["type"] == kind {
			return fields
		}
	}
	return nil
}

// untruth returns what differs from the NodeSync's report, and in lie what of it is not a manual edit. The content of a
// later commit may exist already, before its reconcile has completed.
func (c claim) untruth(h *history, live fleet) (stale, lie string) {
	if !c.ready {
		return "", ""
	}
	said := h.since(c.commit)
	switch {
	case len(said) == 0:
		lie = "it was never pushed"
	case said[0].amiss():
		lie = "it must not be followed"
	default:
		stale, lie = difference(live, nil, said...), difference(live, h.edited(), said...)
	}
	if lie != "" {
		return c.but(lie), c.but(lie)
	}
	if stale != "" {
		return c.but(stale), ""
	}
	return "", ""
}

func (c claim) but(what string) string { return fmt.Sprintf("Ready at %s, but %s", c.commit, what) }

// untruths are what was untrue, check after check.
type untruths struct{ stale, lie lasting }

// judge adds a check, and returns an error for what has been untrue for too long. disturbed is when an edit or a fault
// last happened; quiet is true if it is over.
func (u *untruths) judge(stale, lie string, now, disturbed time.Time, quiet bool) error {
	u.stale.note(stale, now)
	u.lie.note(lie, now)
	if u.lie.since(now) > glimpsed {
		return fmt.Errorf("%w: the status is not true: %s", errViolation, u.lie.what)
	}
	if quiet && min(u.stale.since(now), now.Sub(disturbed)) > noticed {
		return fmt.Errorf("%w: the status is not true, and the daemon was undisturbed for %s: %s", errViolation, noticed, u.stale.what)
	}
	return nil
}

// lasting is something that every check has found since a time.
type lasting struct {
	what string
	from time.Time
}

func (l *lasting) note(what string, now time.Time) {
	if l.what == "" {
		l.from = now
	}
	l.what = what
}

// since returns how long it has existed; zero if it does not.
func (l *lasting) since(now time.Time) time.Duration {
	if l.what == "" {
		return 0
	}
	return now.Sub(l.from)
}
