package karpenter_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	autoscaling "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/karpenter"
	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
)

const (
	deadline  = 60 * time.Second
	namespace = "kube-system"
	name      = "karpenter"
)

// TestMain makes the test binary act as the controller: it writes its environment to a file, crashes at its first
// start, and is ready at the second.
func TestMain(m *testing.M) {
	if setting("PLAY_CONTROLLER") != "" {
		os.Exit(playController())
	}
	os.Exit(m.Run())
}

func playController() int {
	host, _ := os.Hostname()
	lines := strings.Join(append(os.Environ(), "UNAME="+host, "ARGS="+strings.Join(os.Args[1:], " ")), "\n")
	crashed := setting("HOME") + "/env"
	_, err := os.Stat(crashed)
	if err := os.WriteFile(crashed, []byte(lines), 0o600); err != nil {
		return 1
	}
	if err != nil {
		fmt.Println("panic: the first start fails")
		return 3
	}
	fmt.Println("one\ntwo\nthree")
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	fmt.Println(http.ListenAndServe("127.0.0.1:"+setting("HEALTH_PROBE_PORT"), nil))
	return 1
}

// setting returns a variable of the environment that the supervisor has set.
func setting(name string) string {
	value, _ := os.LookupEnv(name)
	return value
}

// pull knows one image.
func pull(_ context.Context, tag string) (string, error) {
	if tag != "1.14.1" {
		return "", karpenter.ErrNoImage
	}
	return os.Args[0], nil
}

func TestSupervisor(t *testing.T) {
	dir := t.TempDir()
	logs, err := karpenter.ServeLogs(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(logs.Close)
	c, group := controlPlane(t, logs.Port)
	supervisor, err := karpenter.Start(t.Context(), karpenter.Options{
		Client: c.Client, Programs: group, Credentials: c, Dir: dir,
		Pull: pull, Env: map[string]string{"AWS_REGION": "eu-west-1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(supervisor.Stop)
	ctx, deployments := t.Context(), c.Client.AppsV1().Deployments(namespace)
	if _, err := deployments.Create(ctx, deployment(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Deployment to be available", func(ctx context.Context) bool {
		d, err := deployments.Get(ctx, name, metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 1
	})
	instance := supervisor.Instances()[0]
	checkEnvironment(t, dir, instance.Pod)
	checkPod(t, c, instance.Pod)
	checkLogs(t, c, instance.Pod)
	checkEvents(t, c, instance.Pod, "Pulled", "Started", "BackOff")

	t.Run("a pod that another client shows as not Ready is Ready again", func(t *testing.T) {
		unready := []byte(`{"status": {"conditions": [{"type": "Ready", "status": "False"}]}}`)
		if _, err := c.Client.CoreV1().Pods(namespace).Patch(t.Context(), instance.Pod, types.StrategicMergePatchType, unready, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the pod to be Ready", func(ctx context.Context) bool {
			pod, err := c.Client.CoreV1().Pods(namespace).Get(ctx, instance.Pod, metav1.GetOptions{})
			return err == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		})
	})

	t.Run("the process ends when the Deployment is scaled to zero", func(t *testing.T) {
		scale := &autoscaling.Scale{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
		if _, err := deployments.UpdateScale(t.Context(), name, scale, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the pod to go", func(ctx context.Context) bool { return pods(ctx, t, c) == 0 })
		if err := syscall.Kill(instance.PID, 0); err == nil {
			t.Errorf("the controller %d runs without a pod", instance.PID)
		}
	})
	t.Run("an unknown version cannot be pulled", func(t *testing.T) {
		d := deployment()
		d.Name, d.Spec.Template.Spec.Containers[0].Image = "other", "public.ecr.aws/karpenter/controller:9.9.9"
		if _, err := deployments.Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var pod corev1.Pod
		eventually(t, "the pod to wait for its image", func(ctx context.Context) bool {
			list, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: karpenter.Selector})
			if err != nil || len(list.Items) != 1 || len(list.Items[0].Status.ContainerStatuses) != 1 {
				return false
			}
			pod = list.Items[0]
			waiting := pod.Status.ContainerStatuses[0].State.Waiting
			return waiting != nil && waiting.Reason == "ImagePullBackOff" && strings.Contains(waiting.Message, "controller:9.9.9")
		})
		checkEvents(t, c, pod.Name, "Failed", "BackOff")
		if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 || pod.Status.Phase != corev1.PodPending {
			t.Errorf("a container that never ran: %d restarts, phase %s", restarts, pod.Status.Phase)
		}
	})
}

// checkLogs reads the program's output through the API server.
func checkLogs(t *testing.T, c *kube.ControlPlane, pod string) {
	t.Helper()
	two := int64(2)
	cases := map[string]struct {
		options corev1.PodLogOptions
		want    string
	}{
		"of this run":          {corev1.PodLogOptions{}, "one\ntwo\nthree\n"},
		"its last lines":       {corev1.PodLogOptions{TailLines: &two}, "two\nthree\n"},
		"its first bytes":      {corev1.PodLogOptions{LimitBytes: &two}, "on"},
		"of the run before it": {corev1.PodLogOptions{Previous: true}, "panic: the first start fails\n"},
	}
	for name, want := range cases {
		got, err := c.Client.CoreV1().Pods(namespace).GetLogs(pod, &want.options).DoRaw(t.Context())
		if err != nil || string(got) != want.want {
			t.Errorf("log %s: got %q, %v, want %q", name, got, err, want.want)
		}
	}
}

func checkEvents(t *testing.T, c *kube.ControlPlane, pod string, reasons ...string) {
	t.Helper()
	for _, reason := range reasons {
		eventually(t, "the event "+reason, func(ctx context.Context) bool {
			list, err := c.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod + ",reason=" + reason})
			return err == nil && len(list.Items) > 0 && list.Items[0].Source.Component == "kubelet"
		})
	}
}

func checkEnvironment(t *testing.T, dir, pod string) {
	t.Helper()
	written, err := os.ReadFile(filepath.Join(dir, namespace+"_"+pod, "env"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"CLUSTER_NAME=prod", "SYSTEM_NAMESPACE=" + namespace, "AWS_REGION=eu-west-1",
		"LEADER_ELECTION_NAMESPACE=" + namespace, "HOSTNAME=" + pod, "UNAME=" + pod,
		"MEMORY_LIMIT=1073741824", "CPU_REQUESTS=250", "ARGS=--for=prod",
	} {
		if !bytes.Contains(append(written, '\n'), []byte(want+"\n")) {
			t.Errorf("the process has no %s in:\n%s", want, written)
		}
	}
	if bytes.Contains(written, []byte("METRICS_PORT=8080\n")) {
		t.Error("the process was given the chart's port, which others may want, too")
	}
}

func checkPod(t *testing.T, c *kube.ControlPlane, name string) {
	t.Helper()
	pod, err := c.Client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ip := net.ParseIP(pod.Status.PodIP); ip == nil || ip.IsLoopback() || pod.Status.HostIP != "10.255.0.10" {
		t.Errorf("addresses: pod %s, host %s", pod.Status.PodIP, pod.Status.HostIP)
	}
	status := pod.Status.ContainerStatuses[0]
	if status.RestartCount != 1 || status.LastTerminationState.Terminated == nil || status.LastTerminationState.Terminated.ExitCode != 3 {
		t.Errorf("a crash with code 3 and one restart are not in the status: %+v", status)
	} else if got := status.LastTerminationState.Terminated.Message; got != "panic: the first start fails\n" {
		t.Errorf("the message of the crash: got %q, want the end of the log", got)
	}
}
