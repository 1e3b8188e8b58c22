package main

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/steppoint"
)

// authorityOf is a server's certificate, as PEM: it is its own authority.
func authorityOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// otherAuthority is one that no server here has.
const otherAuthority = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

// kubeconfigText is a kubeconfig of a server.
func kubeconfigText(t *testing.T, url string) string {
	t.Helper()
	text, err := os.ReadFile(kubeconfigFor(t, url))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// overTLS serves a cluster with a certificate of its own.
func overTLS(t *testing.T, s *apiServer) (kubeconfig string, authority []byte) {
	t.Helper()
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	authority = authorityOf(server)
	text := strings.Replace(kubeconfigText(t, server.URL), "{server:", "{certificate-authority-data: "+base64.StdEncoding.EncodeToString(authority)+", server:", 1)
	return folder(t, map[string]string{"config": text}) + "/config", authority
}

// TestTeardownSweeps: only what nothing in the cluster has, and only in the account and the cluster of the kubeconfig.
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
		// other says that EKS has another cluster of the name.
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
		"nobody has confirmed it": {false, nil, nil, exitFailed, "this is deleted in AWS for good: where nobody can type its name, confirm that by --yes"},
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
			// vol-late is made after the first look, as by a CSI driver amid its work
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

// sweeps sweeps a cluster, whose NodeSync is gone, within a time. What happens meanwhile comes before it ends something.
func sweeps(t *testing.T, s *apiServer, within string, after time.Duration, meanwhile func(), answers ...[]cloud.Answer) (said, *endingAWS) {
	t.Helper()
	delete(s.objects, syncPath+"prod")
	kubeconfig, authority := overTLS(t, s)
	aws, by := awsAnswers(answers...), &endingAWS{}
	aws.eks, aws.authority = map[string]error{"demo": nil}, authority
	dial := func(ctx context.Context, region string, points steppoint.Points) (ender, error) {
		if meanwhile != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			meanwhile()
		}
		return by.dial(ctx, region, points)
	}
	v := verification{dial: aws.dial, dialEnder: dial, now: time.Now, pause: time.Millisecond, sweepAfter: after}
	return teardownAsking(t.Context(), t, nil, v, "--sweep", "--yes", "--timeout", within, "--cluster", "demo", "--region", "eu-west-1", "--kubeconfig", kubeconfig), by
}

// TestTeardownSweepsNoProfileInUse: a NodeClaim that stays says which one its instance has, and so does an
// EC2NodeClass; where an instance is left that neither knows, or a NodeClaim does not say, none goes.
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

// TestTeardownSweepsNotWhatIsUsedAgain: what stays is read once more before something is deleted.
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

// TestTeardownSweepsNotInHaste: what is left has to be so for a while, which --timeout does not shorten.
func TestTeardownSweepsNotInHaste(t *testing.T) {
	s, _, _ := tornDown(t)
	got, by := sweeps(t, s, "500ms", time.Minute, nil, remaining(owned(cloud.KindVolume, "vol-1")))
	if got.code != exitStalled || len(by.asked) > 0 || !strings.Contains(got.err, "nothing is swept: less than 1m is left of --timeout") {
		t.Errorf("code %d, want %d; deletes %v: %s", got.code, exitStalled, by.asked, got.err)
	}
}
