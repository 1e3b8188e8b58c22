package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/notify"
)

// fakeNotices records what it would send.
type fakeNotices struct{ sent, failed []string }

func (f *fakeNotices) Send(_ context.Context, _ []v1alpha1.Notify, notices []notify.Notice) {
	for _, n := range notices {
		f.sent = append(f.sent, n.Reason)
	}
}

func (f *fakeNotices) Failed(types.NamespacedName) []string {
	failed := f.failed
	f.failed = nil
	return failed
}

// TestNotifiedOnceItIsRecorded shows that a notification is sent once, after the status that records it is written.
func TestNotifiedOnceItIsRecorded(t *testing.T) {
	b := newBed(t, nodeSync(func(s *v1alpha1.NodeSync) {
		s.Spec.Notify = []v1alpha1.Notify{{Name: "chat", Type: v1alpha1.NotifySlack}}
	}))
	f := &fakeNotices{}
	b.Notices = f
	refused := func() {
		b.concluded(b.pass(), func(p *pass) { p.Fault = fault.Refused(errors.New("the cluster's name is another")) })
	}
	b.denies(apierrors.NewConflict(schema.GroupResource{Resource: "nodesyncs"}, "prod", errors.New("it has been modified")))
	refused()
	if len(f.sent) > 0 || len(b.read().Status.Notified) > 0 {
		t.Errorf("sent before it is recorded: %v", f.sent)
	}
	b.Client = b.client
	refused()
	refused()
	if diff := cmp.Diff([]string{v1alpha1.ReasonRefused}, f.sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if open := b.read().Status.Notified; len(open) != 1 || open[0].Reason != v1alpha1.ReasonRefused {
		t.Errorf("recorded %+v", open)
	}
}

// TestWhatWasNotSentIsReported shows that one event reports it.
func TestWhatWasNotSentIsReported(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	b.Notices = &fakeNotices{failed: []string{"receiver chat was not notified of Held: it answers 404 Not Found"}}
	for _, want := range []int{1, 0} {
		b.concluded(b.pass())
		got := 0
		for _, event := range b.told() {
			if strings.Contains(event, "Warning NotifyFailed receiver chat was not notified of Held") {
				got++
			}
		}
		if got != want {
			t.Errorf("%d events, want %d", got, want)
		}
	}
}
