package summary_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// TestKeep: the status of a node or of its NodeClaim reports what keeps the node; the removal of its NodePool does so
// only if it is stalled or names the node.
func TestKeep(t *testing.T) {
	at := metav1.NewTime(time.Unix(1_700_000_000, 0))
	rollout := func(message string) v1alpha1.NodeSync {
		return v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{Rollout: &v1alpha1.Rollout{Message: message}}}
	}
	removal := func(message string, stalled *metav1.Time) v1alpha1.NodeSync {
		return v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{Removals: []v1alpha1.Removal{{Kind: "NodePool", Name: "general", Message: message, Stalled: stalled, LastProgress: at}}}}
	}
	for name, c := range map[string]struct {
		sync v1alpha1.NodeSync
		want string
	}{
		"a rollout names it":             {rollout("waits for node ip-1, which has pod web-1"), "waits for node ip-1"},
		"a rollout names its NodeClaim":  {rollout("NodeClaim/general-a: budget"), "budget"},
		"a rollout names one like it":    {rollout("waits for node ip-10"), ""},
		"its pool leaves":                {removal("node ip-2 waits for pod web-1", nil), ""},
		"its pool leaves, by this node":  {removal("node ip-1 waits for pod web-1", nil), "pod web-1"},
		"its pool leaves, and it stalls": {removal("scaled to 0", &at), "scaled to 0"},
		"it terminates": {v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{
			Terminations: []v1alpha1.Termination{{Name: "general-a", Message: "waits for a finalizer"}},
		}}, "waits for a finalizer"},
	} {
		r := &summary.NodeReport{Record: recorder.Record{NodeClaim: "general-a", Node: "ip-1", Pool: "general"}, State: summary.NodeTerminating}
		r.Keep([]v1alpha1.NodeSync{c.sync}, at.Time)
		if (r.Blocked == "") != (c.want == "") || !strings.Contains(r.Blocked, c.want) {
			t.Errorf("%s: %q", name, r.Blocked)
		}
	}
}

// TestRecorded shows that the newest Record of a name counts, and that a node that is not gone yet is terminating.
func TestRecorded(t *testing.T) {
	at := func(seconds int64) metav1.Time { return metav1.NewTime(time.Unix(seconds, 0)) }
	logs := map[string]*recorder.Log{
		"prod":  {Records: []recorder.Record{{NodeClaim: "a", Node: "ip-1", Deleted: at(1), Gone: at(2)}, {NodeClaim: "b", Node: "ip-1", Deleted: at(3)}}},
		"stage": {Records: []recorder.Record{{NodeClaim: "c", Node: "ip-2", Deleted: at(1), Gone: at(2)}}},
	}
	for name, want := range map[string]string{"ip-1": "b prod terminating", "a": "a prod terminated", "ip-2": "c stage terminated", "ip-3": ""} {
		got := ""
		if r := summary.RecordedNode(logs, func(r recorder.Record) bool { return summary.RecordHasName(r, name) }); r != nil {
			got = r.NodeClaim + " " + r.NodeSync + " " + r.State
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestOfClass shows that only a class that is being deleted needs a commit, and only if a NodePool refers to it.
func TestOfClass(t *testing.T) {
	class := unstructured.Unstructured{}
	class.SetKind("EC2NodeClass")
	class.SetName("default")
	if _, err := summary.ClassReportOf("default", []unstructured.Unstructured{class}, nil, nil); err == nil {
		t.Error("a class that is not deleted is explained")
	}
	if _, err := summary.ClassReportOf("other", []unstructured.Unstructured{class}, nil, nil); err == nil {
		t.Error("a class that does not exist is explained")
	}
	class.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	claim := karpv1.NodeClaim{Spec: karpv1.NodeClaimSpec{NodeClassRef: &karpv1.NodeClassReference{Name: "default"}}}
	got, err := summary.ClassReportOf("default", []unstructured.Unstructured{class}, nil, []karpv1.NodeClaim{claim, {}})
	if err != nil || got.NodeClaims != 1 || got.Commit != "" || !strings.Contains(got.WaitsFor(), "that NodeClaim to be deleted") {
		t.Errorf("%+v: %v", got, err)
	}
}
