package main

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
)

// authorityOf returns a server's certificate as PEM: it is self-signed.
func authorityOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// otherAuthority is not the authority of any server here.
const otherAuthority = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

// kubeconfigText returns a kubeconfig of a server.
func kubeconfigText(t *testing.T, url string) string {
	t.Helper()
	text, err := os.ReadFile(kubeconfigFor(t, url))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// overTLS serves a cluster with a self-signed certificate.
func overTLS(t *testing.T, s *apiServer) (kubeconfig string, authority []byte) {
	t.Helper()
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	authority = authorityOf(server)
	text := strings.Replace(kubeconfigText(t, server.URL), "{server:", "{certificate-authority-data: "+base64.StdEncoding.EncodeToString(authority)+", server:", 1)
	return folder(t, map[string]string{"config": text}) + "/config", authority
}

// TestTeardownSweeps deletes only what nothing in the cluster uses, and only in the account and the cluster of the
// kubeconfig.
func TestTeardownSweeps(t *testing.T) {
	owned := func(class string) map[string]string {
		return map[string]string{"kubernetes.io/cluster/demo": "owned", "karpenter.k8s.aws/ec2nodeclass": class}
	}
	volume := func(id string) cloud.Resource {
		return cloud.Resource{Kind: cloud.KindVolume, ID: id, State: "available", Tags: owned("")}
	}
	template := func(id, class string) cloud.Resource {
		return cloud.Resource{Kind: cloud.KindLaunchTemplate, ID: id, Name: "karpenter.k8s.aws/" + id, Tags: owned(class)}
	}
	remain := func(volumes ...cloud.Resource) []cloud.Answer {
		return []cloud.Answer{
			{Kind: cloud.KindInstance, Resources: []cloud.Resource{{Kind: cloud.KindInstance, ID: "i-1", State: "running", Tags: map[string]string{"kubernetes.io/cluster/demo": "owned", "karpenter.sh/nodepool": "gone"}}}},
			{Kind: cloud.KindVolume, Resources: volumes},
			{Kind: cloud.KindLaunchTemplate, Resources: []cloud.Resource{template("lt-gone", "gone"), template("lt-stays", "default")}},
		}
	}
	cases := map[string]struct {
		// other is true if EKS has another cluster of the name.
		other bool
		args  []string
		asked []string
		code  int
		says  string
	}{
		"of this cluster":         {false, []string{"--yes"}, []string{"vol-1", "lt-gone"}, exitStalled, "volume vol-1 is deleted"},
		"with --terminate":        {false, []string{"--yes", "--terminate"}, []string{"vol-1", "lt-gone"}, exitStalled, "volume vol-1 is deleted"},
		"of another cluster":      {true, []string{"--yes"}, nil, exitFailed, "EKS cluster demo () has another certificate authority"},
		"with the account's name": {true, []string{"--yes", "--account", "111122223333"}, nil, exitFailed, "nothing was swept: EKS cluster demo () has another certificate authority"},
		"nobody has confirmed it": {false, nil, nil, exitFailed, "this permanently deletes the resources above from AWS: without a terminal to type the name in, confirm with --yes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, _, _ := tornDown(t)
			delete(s.objects, syncPath+"prod")
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-2"}}
			pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.eks.amazonaws.com", VolumeHandle: "vol-2"} // EKS Auto Mode's
			s.objects["/api/v1/persistentvolumes/pv-2"] = pv
			kubeconfig, authority := overTLS(t, s)
			swept := remain(volume("vol-2"), volume("vol-late"))
			swept[2].Resources = swept[2].Resources[1:]
			// vol-late is created after the first query, as by a CSI driver
			aws, by := awsAnswers(remain(volume("vol-1"), volume("vol-2")), remain(volume("vol-1"), volume("vol-2"), volume("vol-late")), swept), &endingAWS{}
			aws.eks, aws.authority = map[string]error{"demo": nil}, authority
			if c.other {
				aws.authority = []byte(otherAuthority)
			}
			args := append([]string{"--sweep", "--timeout", "500ms", "--cluster", "demo", "--region", "eu-west-1", "--kubeconfig", kubeconfig}, c.args...)
			got := teardownOver(t.Context(), t, nil, aws, by, args...)
			if got.code != c.code || !slices.Equal(by.asked, c.asked) || !strings.Contains(got.err, c.says) || len(s.changes()) > 0 {
				t.Errorf("code %d, want %d; deletes %v, want %v: %s\nwant %q", got.code, c.code, by.asked, c.asked, got.err, c.says)
			}
		})
	}
}

// sweeps sweeps a cluster whose NodeSync is gone, within a time limit. meanwhile runs before it deletes something.
func sweeps(t *testing.T, s *apiServer, within string, after time.Duration, meanwhile func(), answers ...[]cloud.Answer) (said, *endingAWS) {
	t.Helper()
	delete(s.objects, syncPath+"prod")
	kubeconfig, authority := overTLS(t, s)
	aws, by := awsAnswers(answers...), &endingAWS{}
	aws.eks, aws.authority = map[string]error{"demo": nil}, authority
	dial := func(ctx context.Context, region string, points steppoint.Points) (deleter, error) {
		if meanwhile != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			meanwhile()
		}
		return by.dial(ctx, region, points)
	}
	v := verification{dial: aws.dial, dialDeleter: dial, now: time.Now, pause: time.Millisecond, sweepAfter: after}
	return teardownAsking(t.Context(), t, nil, v, "--sweep", "--yes", "--timeout", within, "--cluster", "demo", "--region", "eu-west-1", "--kubeconfig", kubeconfig), by
}

// TestTeardownSweepsNoProfileInUse: a kept NodeClaim names its instance's profile, and so does an EC2NodeClass; if an
// instance is left that neither names, or a NodeClaim names none, no profile is deleted.
func TestTeardownSweepsNoProfileInUse(t *testing.T) {
	profiles := []cloud.Resource{owned(cloud.KindInstanceProfile, "demo_default"), owned(cloud.KindInstanceProfile, "demo_free"), owned(cloud.KindInstanceProfile, "demo_used")}
	for name, c := range map[string]struct {
		pool      string
		annotated bool
		want      []string
	}{
		"of a pool that stays":    {"other", true, []string{"demo_free"}},
		"of one that is gone":     {"gone", true, nil},
		"of an older NodeClaim's": {"other", false, nil},
	} {
		s, _, _ := tornDown(t)
		for path, object := range s.objects {
			if c.annotated && strings.HasPrefix(path, "/apis/karpenter.sh/v1/nodeclaims/") {
				object.(map[string]any)["metadata"].(map[string]any)["annotations"] = map[string]any{"karpenter.k8s.aws/instance-profile-name": "demo_used"}
			}
		}
		instance := owned(cloud.KindInstance, "i-1")
		instance.Tags["karpenter.sh/nodepool"] = c.pool
		got, by := sweeps(t, s, "500ms", 0, nil, remaining(append(slices.Clone(profiles), instance)...))
		if !slices.Equal(slices.Compact(by.asked), c.want) {
			t.Errorf("%s: deletes %v, want %v: %s", name, by.asked, c.want, got.err)
		}
	}
}

// TestTeardownSweepsNotWhatIsUsedAgain: it rereads what is in use before it deletes something.
func TestTeardownSweepsNotWhatIsUsedAgain(t *testing.T) {
	s, _, _ := tornDown(t)
	late := func() {
		s.objects["/apis/karpenter.k8s.aws/v1/ec2nodeclasses/late"] = map[string]any{"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": map[string]any{"name": "late"}}
	}
	template := owned(cloud.KindLaunchTemplate, "lt-late")
	template.Tags["karpenter.k8s.aws/ec2nodeclass"] = "late"
	if got, by := sweeps(t, s, "500ms", 0, late, remaining(template)); len(by.asked) > 0 || !strings.Contains(got.err, "left in AWS: 1 launch template (lt-late)") {
		t.Errorf("deletes %v: %s", by.asked, got.err)
	}
}

// TestTeardownSweepsNotInHaste: a resource must be left over for a while, which --timeout does not shorten.
func TestTeardownSweepsNotInHaste(t *testing.T) {
	s, _, _ := tornDown(t)
	got, by := sweeps(t, s, "500ms", time.Minute, nil, remaining(owned(cloud.KindVolume, "vol-1")))
	if got.code != exitStalled || len(by.asked) > 0 || !strings.Contains(got.err, "nothing is swept: less than 1m is left of --timeout") {
		t.Errorf("code %d, want %d; deletes %v: %s", got.code, exitStalled, by.asked, got.err)
	}
}

// leftByKarpenter is a cluster whose NodeSync is never deleted, with a node of its own in some conditions, and a
// draining node of another pool.
func leftByKarpenter(t *testing.T, conditions ...string) (*apiServer, string, []byte) {
	t.Helper()
	s, _, _ := tornDown(t)
	for path := range s.objects {
		if strings.Contains(path, "/nodeclaims/") {
			delete(s.objects, path)
		}
	}
	for name, pool := range map[string]string{"0a1": "general", "0b2": "other"} {
		var list []any
		for _, condition := range conditions {
			kind, is, _ := strings.Cut(condition, "=")
			list = append(list, map[string]any{"type": kind, "status": is, "lastTransitionTime": "2026-11-25T10:00:00Z"})
		}
		s.objects["/apis/karpenter.sh/v1/nodeclaims/"+name] = map[string]any{
			"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
			"metadata": map[string]any{"name": name, "deletionTimestamp": "2026-11-25T10:00:00Z", "labels": map[string]any{"karpenter.sh/nodepool": pool}},
			"status":   map[string]any{"nodeName": "node-" + name, "providerID": "aws:///eu-west-1a/i-" + name, "conditions": list},
		}
	}
	s.deleted = func(s *apiServer, at string) {
		s.objects[at].(*v1alpha1.NodeSync).DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	kubeconfig, authority := overTLS(t, s)
	return s, kubeconfig, authority
}

// instances returns those of a pool of the cluster, with additional tags.
func instances(tags map[string]string, ids ...string) []cloud.Answer {
	answer := cloud.Answer{Kind: cloud.KindInstance}
	for _, id := range ids {
		all := map[string]string{"kubernetes.io/cluster/demo": "owned", "karpenter.sh/nodepool": map[string]string{"i-0a1": "general", "i-0b2": "other"}[id]}
		for key, value := range tags {
			all[key] = value
		}
		answer.Resources = append(answer.Resources, cloud.Resource{Kind: cloud.KindInstance, ID: id, State: "running", Tags: all})
	}
	return []cloud.Answer{answer}
}

// TestTeardownTerminates what Karpenter has left for a while, of this NodeSync only, and then lists what is left with
// instructions.
func TestTeardownTerminates(t *testing.T) {
	drained := []string{"Drained=True", "VolumesDetached=True"}
	both := instances(nil, "i-0a1", "i-0b2")
	const left = "left in AWS: nothing; left in the cluster: NodeClaim/0a1, EC2NodeClass/default, NodePool/batch, NodePool/general, NodeSync/prod. "
	cases := map[string]struct {
		conditions []string
		aws        []cloud.Answer
		prepare    func(s *apiServer)
		args       []string
		failed     error
		asked      []string
		code       int
		says       string
	}{
		"drained and left":          {drained, both, nil, []string{"--terminate"}, nil, []string{"i-0a1"}, exitStalled, left},
		"without the flag":          {drained, both, nil, nil, nil, nil, exitStalled, "nodesync/prod is not gone after 300ms"},
		"its pods are evicted":      {[]string{"Drained=Unknown"}, both, nil, []string{"--terminate"}, nil, nil, exitStalled, "nodesync/prod is not gone after 300ms"},
		"a tag of another cluster":  {drained, instances(map[string]string{"kubernetes.io/cluster/stage": "shared"}, "i-0a1"), nil, []string{"--terminate"}, nil, nil, exitStalled, "instance i-0a1 stays: it has a tag of cluster stage, too"},
		"denied":                    {drained, both, nil, []string{"--terminate"}, &cloud.DeniedError{Action: "ec2:TerminateInstances"}, []string{"i-0a1"}, exitFailed, "allow ec2:TerminateInstances to the credentials in use, as manifests/iam-policy-teardown.json does"},
		"ended by an earlier run":   {drained, instances(nil, "i-0b2"), nil, []string{"--terminate"}, nil, nil, exitStalled, left},
		"with a sweep":              {[]string{"Drained=Unknown"}, both, nil, []string{"--terminate", "--sweep"}, nil, nil, exitStalled, "nodesync/prod is not gone"},
		"a controller that is down": {[]string{"Drained=Unknown"}, both, func(s *apiServer) { s.objects[controllerPath].(map[string]any)["status"] = nil }, []string{"--terminate"}, nil, []string{"i-0a1"}, exitStalled, "instance i-0a1 of Node/node-0a1 is not drained: Karpenter's controller does not run"},
		"no controller, no daemon": {[]string{"Drained=Unknown"}, both, func(s *apiServer) {
			delete(s.objects, controllerPath)
			s.objects[syncPath+"prod"].(*v1alpha1.NodeSync).Status.Karpenter.Management = "External"
		}, []string{"--terminate"}, nil, []string{"i-0a1"}, exitStalled, left},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, kubeconfig, authority := leftByKarpenter(t, c.conditions...)
			if c.prepare != nil {
				c.prepare(s)
			}
			aws, by := awsAnswers(c.aws, c.aws, c.aws, instances(nil, "i-0b2")), &endingAWS{}
			if c.failed != nil {
				by.failed = map[string]error{"i-0a1": c.failed}
			}
			aws.eks, aws.authority = map[string]error{"demo": nil}, authority
			v := verification{dial: aws.dial, dialDeleter: by.dial, now: time.Now, pause: time.Millisecond, strandedAfter: 20 * time.Millisecond}
			timeout := "1m"
			if strings.Contains(c.says, "is not gone") {
				timeout = "300ms"
			}
			got := teardownAsking(t.Context(), t, nil, v, append([]string{"prod", "--yes", "--timeout", timeout, "--kubeconfig", kubeconfig}, c.args...)...)
			if got.code != c.code || !slices.Equal(c.asked, by.asked) || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, want %d; ends %v, want %v; says %s\nwant %q in it", got.code, c.code, by.asked, c.asked, got.err, c.says)
			}
		})
	}
}

// TestTeardownTerminatesAnothers: if EKS has another cluster of the name, nothing is terminated.
func TestTeardownTerminatesAnothers(t *testing.T) {
	_, kubeconfig, _ := leftByKarpenter(t, "Drained=True", "VolumesDetached=True")
	aws, by := awsAnswers(instances(nil, "i-0a1")), &endingAWS{failed: map[string]error{"i-0a1": errors.New("not asked for")}}
	aws.eks, aws.authority = map[string]error{"demo": nil}, []byte(otherAuthority)
	v := verification{dial: aws.dial, dialDeleter: by.dial, now: time.Now, pause: time.Millisecond}
	got := teardownAsking(t.Context(), t, nil, v, "prod", "--yes", "--terminate", "--account", "111122223333", "--timeout", "300ms", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || len(by.asked) > 0 || !strings.Contains(got.err, "has another certificate authority") {
		t.Errorf("code %d, ends %v: %s", got.code, by.asked, got.err)
	}
}

// TestNothingEndsWhileTheClusterIsSilent: what to keep is reread once the cluster responds, until the time is over.
func TestNothingEndsWhileTheClusterIsSilent(t *testing.T) {
	by := &endingAWS{}
	run := &deletionRun{by: by, progress: teardown.NewDeletion([]string{"i-0a1"}, strings.Clone), renew: func(context.Context) error { return fmt.Errorf("list Nodes: %w", errUnreachable) }}
	left, denied, err := (&teardownCommand{}).deletePass(t.Context(), nil, run)
	if !left || denied || err != nil || len(by.asked) > 0 {
		t.Errorf("left %t, denied %t, error %v, ends %v", left, denied, err, by.asked)
	}
}
