package main

import (
	"encoding/base64"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
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
		"of another cluster":      {true, []string{"--yes"}, nil, exitFailed, "EKS cluster demo () has another certificate authority"},
		"with the account's name": {true, []string{"--yes", "--account", "111122223333"}, nil, exitFailed, "nothing was swept: EKS cluster demo () has another certificate authority"},
		"nobody has confirmed it": {false, nil, nil, exitFailed, "this is deleted in AWS for good: where nobody can type its name, confirm that by --yes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, _, _ := tornDown(t)
			delete(s.objects, syncPath+"prod")
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-2"}}
			pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: ebsDriver, VolumeHandle: "vol-2"}
			s.objects["/api/v1/persistentvolumes/pv-2"] = pv
			server := httptest.NewTLSServer(s)
			defer server.Close()
			text := strings.Replace(kubeconfigText(t, server.URL), "{server:", "{certificate-authority-data: "+base64.StdEncoding.EncodeToString(authorityOf(server))+", server:", 1)
			kubeconfig := folder(t, map[string]string{"config": text}) + "/config"
			// vol-late is made after the first look, as by a CSI driver amid its work
			aws, by := awsAnswers(remain(volume("vol-1"), volume("vol-2")), remain(volume("vol-1"), volume("vol-2"), volume("vol-late"))), &endingAWS{}
			aws.eks, aws.authority = map[string]error{"demo": nil}, authorityOf(server)
			if c.other {
				aws.authority = []byte(otherAuthority)
			}
			args := append([]string{"--sweep", "--timeout", "20ms", "--cluster", "demo", "--region", "eu-west-1", "--kubeconfig", kubeconfig}, c.args...)
			got := teardownOver(t.Context(), t, nil, aws, by, args...)
			if got.code != c.code || !slices.Equal(by.asked, c.asked) || !strings.Contains(got.err, c.says) || len(s.changes()) > 0 {
				t.Errorf("code %d, want %d; deletes %v, want %v: %s\nwant %q", got.code, c.code, by.asked, c.asked, got.err, c.says)
			}
		})
	}
}
