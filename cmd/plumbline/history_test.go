package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEvents(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["in-sync"])
	event := func(name, message string, fields map[string]any) {
		object := map[string]any{
			"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": name, "namespace": "fleet"},
			"type": "Normal", "reason": "Applied", "message": message,
		}
		for key, value := range fields {
			object[key] = value
		}
		s.objects["/api/v1/namespaces/fleet/events/"+name] = object
	}
	if got := plumbline(t, "events", "prod", "--kubeconfig", kubeconfig); got.code != exitDone || got.out != "" || !strings.Contains(got.err, "no events of nodesync/prod are left") {
		t.Errorf("none: code %d, %q, %q", got.code, got.out, got.err)
	}
	event("a", "the newest\nof all\u202e", map[string]any{"lastTimestamp": midday})
	event("b", "the oldest", map[string]any{"eventTime": metav1.NewMicroTime(midday.Add(-24 * time.Hour))})
	got := plumbline(t, "events", "nodesync/prod", "--kubeconfig", kubeconfig)
	want := "LAST SEEN   TYPE     REASON    MESSAGE\n3d          Normal   Applied   the oldest\n2d          Normal   Applied   the newest …\n"
	if got.code != exitDone || got.out != want {
		t.Errorf("code %d, prints\n%s", got.code, got.out)
	}
	if asked := s.asked[len(s.asked)-1]; !strings.Contains(asked, "involvedObject.name%3Dprod") || !strings.Contains(asked, "involvedObject.kind%3DNodeSync") {
		t.Errorf("asked %s", asked)
	}
	s.refused["/api/v1/namespaces/fleet/events"] = http.StatusForbidden
	if got := plumbline(t, "events", "prod", "--kubeconfig", kubeconfig); got.code != exitFailed || !strings.Contains(got.err, "list events: you are not allowed to") {
		t.Errorf("not allowed: code %d, %q", got.code, got.err)
	}
}

func TestLogs(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["in-sync"])
	if got := plumbline(t, "logs", "--kubeconfig", kubeconfig); got.code != exitFailed || !strings.Contains(got.err, "no pod of plumbline runs in fleet") {
		t.Errorf("without a pod: code %d, %q", got.code, got.err)
	}
	for pod, log := range map[string]string{
		"plumbline-a": `{"level":"info","ts":"2026-11-23T19:00:02Z","msg":"applied","NodeSync":{"name":"prod","namespace":"fleet"},"reconcileID":"1","objects":2}
goroutine 1 [running]:
`,
		"plumbline-b": `{"level":"info","ts":"2026-11-23T19:00:01Z","msg":"begun"}
{"level":"debug","ts":"2026-11-23T19:00:03Z","logger":"events","msg":"removed","object":{"kind":"NodeSync","name":"prod"}}
{"level":"error","ts":"2026-11-23T19:00:04Z","msg":"failed","NodeSync":{"name":"other"},"error":"a\u001bb"}
`,
	} {
		s.objects["/api/v1/namespaces/fleet/pods/"+pod] = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": pod, "namespace": "fleet"}}
		s.texts["/api/v1/namespaces/fleet/pods/"+pod+"/log"] = log
	}
	const applied, removed = "2026-11-23T19:00:02Z info nodesync/prod: applied objects=2\n", "2026-11-23T19:00:03Z debug nodesync/prod: removed\n"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"prod"}, applied + removed},
		{nil, "goroutine 1 [running]:\n2026-11-23T19:00:01Z info: begun\n" + applied + removed + `2026-11-23T19:00:04Z error nodesync/other: failed error="a\u001bb"` + "\n"},
		{[]string{"nodesync/prod", "-o", "json"}, `{"level":"info","ts":"2026-11-23T19:00:02Z","msg":"applied","NodeSync":{"name":"prod","namespace":"fleet"},"reconcileID":"1","objects":2}` + "\n" + `{"level":"debug","ts":"2026-11-23T19:00:03Z","logger":"events","msg":"removed","object":{"kind":"NodeSync","name":"prod"}}` + "\n"},
	} {
		if got := plumbline(t, append(append([]string{"logs"}, c.args...), "--kubeconfig", kubeconfig)...); got.code != exitDone || got.out != c.want {
			t.Errorf("%v: code %d, prints\n%s\nwant\n%s%s", c.args, got.code, got.out, c.want, got.err)
		}
	}
	plumbline(t, "logs", "--since", "90s", "--follow", "--kubeconfig", kubeconfig)
	if asked := s.asked[len(s.asked)-1]; !strings.Contains(asked, "sinceSeconds=90") || !strings.Contains(asked, "follow=true") || !strings.Contains(asked, "container=plumbline") {
		t.Errorf("asked %s", asked)
	}
	if got := plumbline(t, "logs", "-o", "yaml", "--kubeconfig", kubeconfig); got.code != exitFailed || !strings.Contains(got.err, "-o is table or json for logs") {
		t.Errorf("as YAML: code %d, %q", got.code, got.err)
	}
}
