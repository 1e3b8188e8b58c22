package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// authority is a certificate authority, as PEM.
func authority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
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
	ours, other := authority(t), authority(t)
	cases := map[string]struct {
		eks   []byte
		args  []string
		asked []string
		code  int
		says  string
	}{
		"of this cluster":         {ours, []string{"--yes"}, []string{"vol-1", "lt-gone"}, exitStalled, "volume vol-1 is deleted"},
		"of another cluster":      {other, []string{"--yes"}, nil, exitFailed, "nothing was swept: EKS cluster demo"},
		"with the account's name": {other, []string{"--yes", "--account", "111122223333"}, nil, exitFailed, "nothing was swept: EKS cluster demo"},
		"nobody has confirmed it": {ours, nil, nil, exitFailed, "this is deleted in AWS for good: where nobody can type its name, confirm that by --yes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, _, kubeconfig := tornDown(t)
			delete(s.objects, syncPath+"prod")
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-2"}}
			pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: ebsDriver, VolumeHandle: "vol-2"}
			s.objects["/api/v1/persistentvolumes/pv-2"] = pv
			text, err := os.ReadFile(kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			text = []byte(strings.Replace(string(text), "{server:", "{certificate-authority-data: "+base64.StdEncoding.EncodeToString(ours)+", server:", 1))
			if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
				t.Fatal(err)
			}
			// vol-late is made after the first look, as by a CSI driver amid its work
			aws, by := awsAnswers(remain(volume("vol-1"), volume("vol-2")), remain(volume("vol-1"), volume("vol-2"), volume("vol-late"))), &endingAWS{}
			aws.eks, aws.authority = map[string]error{"demo": nil}, c.eks
			args := append([]string{"--sweep", "--timeout", "20ms", "--cluster", "demo", "--region", "eu-west-1", "--kubeconfig", kubeconfig}, c.args...)
			got := teardownOver(t.Context(), t, nil, aws, by, args...)
			if got.code != c.code || !slices.Equal(by.asked, c.asked) || !strings.Contains(got.err, c.says) || len(s.changes()) > 0 {
				t.Errorf("code %d, want %d; deletes %v, want %v: %s\nwant %q", got.code, c.code, by.asked, c.asked, got.err, c.says)
			}
		})
	}
}
