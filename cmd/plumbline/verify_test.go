package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// remainsOf is an AWS that gives one answer after another, then repeats the last.
type remainsOf struct {
	account string
	answers [][]cloud.Answer
	queries []cloud.Query
	region  string
	// eks is EKS's answer for a cluster, with its certificate authority; it does not know others.
	eks       map[string]error
	authority []byte
	// existsFrom is the number of the query from which EKS has every cluster; if 0, never.
	existsFrom, clusters int
}

func (r *remainsOf) Identity(context.Context) (cloud.Identity, error) {
	return cloud.Identity{Account: r.account}, nil
}

func (r *remainsOf) Cluster(_ context.Context, name string) (cloud.Cluster, error) {
	if r.clusters++; r.existsFrom > 0 && r.clusters >= r.existsFrom {
		return cloud.Cluster{Name: name}, nil
	}
	if err, known := r.eks[name]; known {
		return cloud.Cluster{Name: name, CertificateAuthority: r.authority}, err
	}
	return cloud.Cluster{}, &cloud.NotFoundError{What: "EKS cluster demo", Where: "eu-west-1"}
}

func (r *remainsOf) Left(_ context.Context, q cloud.Query) []cloud.Answer {
	answer := r.answers[min(len(r.queries), len(r.answers)-1)]
	r.queries = append(r.queries, q)
	return answer
}

func (r *remainsOf) dial(_ context.Context, region string) (remains, error) {
	r.region = region
	return r, nil
}

var (
	nothingLeft = []cloud.Answer{{Kind: cloud.KindInstance}, {Kind: cloud.KindVolume}}
	volumeLeft  = []cloud.Answer{{Kind: cloud.KindInstance}, {Kind: cloud.KindVolume, Resources: []cloud.Resource{{Kind: cloud.KindVolume, ID: "vol-1", Zone: "eu-west-1a", State: "available"}}}}
	denied      = []cloud.Answer{{Kind: cloud.KindInstance}, {Kind: cloud.KindVolume, Err: &cloud.DeniedError{Action: "ec2:DescribeVolumes", Detail: "not authorized"}}}
)

// TestVerificationAsks: nothing is left only after two consecutive answers say so; otherwise the query is repeated
// until the time is over.
func TestVerificationAsks(t *testing.T) {
	cases := map[string]struct {
		answers [][]cloud.Answer
		timeout time.Duration
		asked   int
		code    int
	}{
		"nothing, twice":                  {[][]cloud.Answer{nothingLeft}, 0, 2, exitDone},
		"something":                       {[][]cloud.Answer{volumeLeft}, 0, 1, exitStalled},
		"nothing, and then something":     {[][]cloud.Answer{nothingLeft, volumeLeft}, 0, 2, exitStalled},
		"something that goes":             {[][]cloud.Answer{volumeLeft, nothingLeft}, time.Hour, 3, exitDone},
		"nothing once, amid a long wait":  {[][]cloud.Answer{nothingLeft, volumeLeft, nothingLeft}, time.Hour, 4, exitDone},
		"denied: waiting does not help":   {[][]cloud.Answer{denied}, time.Hour, 1, exitFailed},
		"no question":                     {[][]cloud.Answer{nil}, 0, 1, exitFailed},
		"a question that is not answered": {[][]cloud.Answer{{{Kind: cloud.KindVolume, Err: errors.New("no answer")}}}, 0, 1, exitFailed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			aws := &remainsOf{account: "111122223333", answers: c.answers}
			v := verification{dial: aws.dial, cluster: "demo", region: "eu-west-1", timeout: c.timeout, now: time.Now}
			report, err := v.queryUntilGone(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var says bytes.Buffer
			if code := exitCode(exitOfReport(report), &says); code != c.code || len(aws.queries) != c.asked {
				t.Errorf("code %d after %d questions, want %d after %d: %s", code, len(aws.queries), c.code, c.asked, says.String())
			}
		})
	}
}

func verifyWith(t *testing.T, aws *remainsOf, args ...string) said {
	t.Helper()
	kubeconfig := genericclioptions.NewConfigFlags(true)
	cmd := newVerifyCommand(kubeconfig, verification{dial: aws.dial, now: time.Now})
	kubeconfig.ClusterName = nil // the command defines --cluster
	kubeconfig.AddFlags(cmd.PersistentFlags())
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	var out, errs bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	code := exitCode(cmd.ExecuteContext(t.Context()), &errs)
	return said{out: out.String(), err: errs.String(), code: code}
}

// TestVerifyOfTheWrongRegion: an empty region proves little if AWS has the cluster's instance profiles for another one,
// unless the cluster is known to have been in it.
func TestVerifyOfTheWrongRegion(t *testing.T) {
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: "fleet"}}
	sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Cluster: "demo", Region: "eu-west-1", ClusterARN: "arn:aws:eks:eu-west-1:1:cluster/demo"}
	_, kubeconfig := serve(t, sync)
	elsewhere := func(answers []cloud.Answer) []cloud.Answer {
		return append(slices.Clone(answers), cloud.Answer{Kind: cloud.KindInstanceProfile, Elsewhere: []string{"eu-west-2"}})
	}
	const says = "nothing of cluster demo is in eu-west-1, but it has instance profiles for eu-west-2: check --region"
	only := []string{"--gone", "--cluster", "demo", "--region", "eu-west-1"}
	for name, c := range map[string]struct {
		answers [][]cloud.Answer
		args    []string
		code    int
		says    string
	}{
		"nothing is there":           {[][]cloud.Answer{elsewhere(nothingLeft)}, only, exitFailed, says},
		"as JUnit":                   {[][]cloud.Answer{elsewhere(nothingLeft)}, append(only[:len(only):len(only)], "-o", "junit"), exitFailed, says},
		"something was there before": {[][]cloud.Answer{elsewhere(volumeLeft), elsewhere(nothingLeft)}, append(only[:len(only):len(only)], "--timeout", "1m"), exitDone, "nothing is left"},
		"a NodeSync says it":         {[][]cloud.Answer{elsewhere(nothingLeft)}, []string{"prod", "--kubeconfig", kubeconfig}, exitDone, "nothing is left"},
	} {
		t.Run(name, func(t *testing.T) {
			got := verifyWith(t, &remainsOf{account: "1", answers: c.answers}, c.args...)
			if got.code != c.code || !strings.Contains(got.out, c.says) || c.code == exitFailed && !strings.Contains(got.err, says) {
				t.Errorf("code %d, prints %s, says %s", got.code, got.out, got.err)
			}
		})
	}
}

// TestVerifyByNodeSync: the names and the account come from the NodeSync, and a volume that the cluster retains does
// not count.
func TestVerifyByNodeSync(t *testing.T) {
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: "fleet"}}
	sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Cluster: "demo", Region: "eu-west-1", ClusterARN: "arn:aws:eks:eu-west-1:111122223333:cluster/demo"}
	server, kubeconfig := serve(t, sync)
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1"}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "data-0"}
	server.objects["/api/v1/persistentvolumes/pv-1"] = volume
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "general-a"}, Status: karpv1.NodeClaimStatus{ProviderID: "aws:///eu-west-1a/i-1"}}
	server.objects["/apis/karpenter.sh/v1/nodeclaims/general-a"] = claim
	aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{volumeLeft}}
	for _, policy := range []corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain} {
		volume.Spec.PersistentVolumeReclaimPolicy = policy
		got := verifyWith(t, aws, "--gone", "prod", "--kubeconfig", kubeconfig)
		want, says := exitStalled, "PersistentVolume pv-1 of claim shop/data-0: delete the claim, or retain the volume"
		if policy == corev1.PersistentVolumeReclaimRetain {
			want, says = exitDone, "PersistentVolume pv-1, retained"
		}
		if got.code != want || !strings.Contains(got.out, says) || !strings.Contains(got.out, "cluster demo in eu-west-1 of account 111122223333") {
			t.Errorf("%s: code %d, want %d, prints %s, says %s", policy, got.code, want, got.out, got.err)
		}
	}
	if q := aws.queries[0]; q.Cluster != "demo" || aws.region != "eu-west-1" || len(q.ProviderIDs) != 1 || q.ProviderIDs[0] != claim.Status.ProviderID {
		t.Errorf("asked about %+v in %s, want demo in eu-west-1 and the instance %s", q, aws.region, claim.Status.ProviderID)
	}
	aws.account = "444455556666"
	if got := verifyWith(t, aws, "--kubeconfig", kubeconfig); got.code != exitFailed || !strings.Contains(got.err, "the AWS credentials are for account 444455556666, but the cluster is in 111122223333") {
		t.Errorf("another account: code %d, prints %s, says %s", got.code, got.out, got.err)
	}
}

// TestVerifyWords: the output for each resource, in each format.
func TestVerifyWords(t *testing.T) {
	only := []string{"--gone", "--cluster", "demo", "--region", "eu-west-1"}
	cases := map[string]struct {
		answers []cloud.Answer
		args    []string
		out     []string
	}{
		"text, nothing": {nothingLeft, nil, []string{"nothing is left"}},
		"text":          {volumeLeft, nil, []string{"volume   vol-1   eu-west-1a   available"}},
		"text, denied":  {denied, nil, []string{"volumes: AWS denies ec2:DescribeVolumes: not authorized; allow ec2:DescribeVolumes to the credentials in use, as " + leftover.Policy + " does"}},
		"json":          {volumeLeft, []string{"-o", "json"}, []string{`"gone": false`, `"id": "vol-1"`}},
		"junit":         {volumeLeft, []string{"-o", "junit"}, []string{`failures="1"`, `<failure message="left: 1 volume (vol-1)">`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := verifyWith(t, &remainsOf{account: "1", answers: [][]cloud.Answer{c.answers}}, append(only[:len(only):len(only)], c.args...)...)
			for _, want := range c.out {
				if !strings.Contains(got.out, want) {
					t.Errorf("prints %s, want %q in it", got.out, want)
				}
			}
		})
	}
}

// TestVolumesOfTheCluster: whatever names an EBS volume protects it from deletion.
func TestVolumesOfTheCluster(t *testing.T) {
	server, kubeconfig := serve(t, &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: "fleet"}})
	pv := func(name string, source corev1.PersistentVolumeSource, policy corev1.PersistentVolumeReclaimPolicy) {
		server.objects["/api/v1/persistentvolumes/"+name] = &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PersistentVolumeSpec{PersistentVolumeSource: source, PersistentVolumeReclaimPolicy: policy},
		}
	}
	csi := func(handle string, attributes map[string]string) corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: handle, VolumeAttributes: attributes}}
	}
	inTree := &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://eu-west-1a/vol-4"}
	pv("a", csi("vol-1", nil), corev1.PersistentVolumeReclaimDelete)
	pv("b", csi("aws://eu-west-1a/vol-2", nil), corev1.PersistentVolumeReclaimDelete)
	pv("c", csi("fs#vol-3#ext4", map[string]string{"disk": "vol-1"}), corev1.PersistentVolumeReclaimRetain)
	pv("d", corev1.PersistentVolumeSource{AWSElasticBlockStore: inTree}, corev1.PersistentVolumeReclaimDelete)
	pv("e", csi("fs-0123", nil), corev1.PersistentVolumeReclaimDelete)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-5"}}}, {}}
	server.objects["/api/v1/namespaces/shop/pods/db"] = pod
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig = &kubeconfig
	c, err := connect(t.Context(), flags)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.volumes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]leftover.Volume{
		"vol-1": {Name: "c", Retained: true}, "vol-2": {Name: "b"}, "vol-3": {Name: "c", Retained: true}, "vol-4": {Name: "d"}, "vol-5": {Pod: "shop/db"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
}
