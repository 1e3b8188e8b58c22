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
	// noticed is how long the daemon, undisturbed, may leave an edit by hand as it is
	// while its status reports that all is well.
	noticed = 30 * time.Second
	// glimpsed is how long anything else may be untrue: the parts of one look are not
	// taken at one moment.
	glimpsed = 5 * time.Second
)

// claim is what a NodeSync says.
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

// condition are the fields of a condition.
func condition(object *unstructured.Unstructured, kind string) map[string]any {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range all {
		if fields, ok := one.(map[string]any); ok && fields["type"] == kind {
			return fields
		}
	}
	return nil
}

// untruth says what is not as the NodeSync says, and what of it is no edit by hand.
// What a later commit says may be there already: its reconcile has not ended yet.
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

// untruths are what was not true, look after look.
type untruths struct{ stale, lie lasting }

// judge takes in a look, and says what has not been true for too long. Whoever may
// be edited or disturbed was so at a moment; quiet reports that it is over.
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

// lasting is something that was seen each time since a moment.
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

// since is for how long it has been there; zero if it is not.
func (l *lasting) since(now time.Time) time.Duration {
	if l.what == "" {
		return 0
	}
	return now.Sub(l.from)
}
