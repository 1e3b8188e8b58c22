package upgrade

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestTelling(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"nothing":    {"\n", ""},
		"last lines": {"one\ntwo\n\nthree  words\n", "two three words"},
		"a panic": {
			"{\"level\":\"INFO\"}\npanic: parsing flags, invalid X\n\ngoroutine 1 [running]:\nmain.main()\n\t/main.go:33 +0x29\n",
			"panic: parsing flags, invalid X",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tellingLines(c.log); got != c.want {
				t.Errorf("telling() = %q, want %q", got, c.want)
			}
		})
	}
}

func TestCause(t *testing.T) {
	labels := map[string]string{"app.kubernetes.io/name": "karpenter"}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter"}}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	pod := func(name string, made int64, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: labels, CreationTimestamp: metav1.Unix(made, 0)}}
		change(p)
		return p
	}
	crashing := pod("new", 2, func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2}},
		}}
	})
	running := pod("old", 1, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	unscheduled := pod("new", 2, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/2 nodes are\n available"}}
	})
	logs := func(_ context.Context, _, pod, _ string, previous bool) (string, error) {
		if !previous {
			return "", errors.New("the run before the last restart is asked for first")
		}
		return "panic: of " + pod + "\n\ngoroutine 1\n", nil
	}
	const before = "0 of 1; pod/new CrashLoopBackOff: back-off, its last run ended with exit code 2; its log: "
	long := strings.Repeat("x", maxCause-len(before+"***")) // if it were hidden after the truncation, a part would remain
	for name, c := range map[string]struct {
		pods []client.Object
		logs Logs
		want string
	}{
		"no pod":        {want: "0 of 1; it has no pod"},
		"it is Ready":   {pods: []client.Object{running}, want: "0 of 1; 1 pod of it is Ready"},
		"it crashes":    {pods: []client.Object{running, crashing}, logs: logs, want: "0 of 1; pod/new CrashLoopBackOff: back-off, its last run ended with exit code 2; its log: panic: of new"},
		"not scheduled": {pods: []client.Object{unscheduled}, want: "0 of 1; pod/new is not scheduled: 0/2 nodes are available"},
		"it tells too much": {
			pods: []client.Object{crashing},
			logs: func(context.Context, string, string, string, bool) (string, error) { return long + "hunter2", nil },
			want: before + long + "***",
		},
		"no log": {pods: []client.Object{crashing}, want: "0 of 1; pod/new CrashLoopBackOff: back-off, its last run ended with exit code 2"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithObjects(c.pods...).
				WithIndex(&corev1.Event{}, "involvedObject.uid", func(client.Object) []string { return nil }).
				WithIndex(&corev1.Event{}, "type", func(client.Object) []string { return nil }).Build()
			if diff := cmp.Diff(c.want, Cause(t.Context(), reader, c.logs, deployment, "0 of 1", func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") })); diff != "" {
				t.Errorf("Cause() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLoggedError checks that the latest error about exactly this object is returned, on one line, without request ID.
func TestLoggedError(t *testing.T) {
	const log = `plain text about "web"
{"level":"ERROR","time":"2026-03-01T12:00:01Z","controllerKind":"EC2NodeClass","name":"web","error":"first"}
{"level":"ERROR","time":"2026-03-01T12:00:02Z","controllerKind":"EC2NodeClass","name":"web","error":"invalid UserData\n  toml: expected character ="}
{"level":"ERROR","time":"2026-03-01T12:00:02Z","controllerKind":"EC2NodeClass","name":"iam","error":"operation error IAM: GetRole, https response error StatusCode: 403, RequestID: a-1, api error AccessDenied: no. Encoded authorization failure message: x8s"}
{"level":"ERROR","time":"2026-03-01T12:00:03Z","controllerKind":"NodePool","name":"web","error":"of a pool"}
{"level":"ERROR","time":"2026-03-01T12:00:04Z","controllerKind":"EC2NodeClass","name":"web2","error":"of another"}
{"level":"INFO","time":"2026-03-01T12:00:05Z","controllerKind":"EC2NodeClass","name":"web","message":"no error"}
`
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		class string
		since time.Duration
		want  string
	}{
		"the newest":       {"web", 0, "invalid UserData toml: expected character ="},
		"all are older":    {"web", 3 * time.Second, ""},
		"of no such class": {"other", 0, ""},
		"of AWS":           {"iam", 0, "operation error IAM: GetRole, api error AccessDenied: no."},
	} {
		if got := LoggedError(log, "EC2NodeClass", c.class, start.Add(c.since)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
