package audit

import (
	"context"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

func authority(of string) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(of)})
}

// fakeAWS is a region of an account with clusters of these names.
type fakeAWS struct {
	account, region string
	clusters        []string
	denies          string
	// fails is the error of each call; nil if AWS answers.
	fails error
	calls map[string]int
}

func (f *fakeAWS) refuse(action string) error {
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	if f.calls[action]++; f.denies == action {
		return &cloud.DeniedError{Action: action, Resource: "*"}
	}
	return f.fails
}

func (f *fakeAWS) Identity(context.Context) (cloud.Identity, error) {
	return cloud.Identity{Account: f.account}, f.refuse("sts:GetCallerIdentity")
}

func (f *fakeAWS) Clusters(context.Context) ([]string, error) {
	return f.clusters, f.refuse("eks:ListClusters")
}

func (f *fakeAWS) Cluster(_ context.Context, name string) (cloud.Cluster, error) {
	return cloud.Cluster{
		Name: name, ARN: "arn:aws:eks:" + f.region + ":" + f.account + ":cluster/" + name, Endpoint: "https://" + name + ".example.com",
		CertificateAuthority: authority(name),
	}, f.refuse("eks:DescribeCluster")
}

func (f *fakeAWS) Grant(_ context.Context, cluster string, of cloud.ServiceAccount) (cloud.Grant, error) {
	return cloud.Grant{RoleARN: "arn:aws:iam::" + f.account + ":role/" + cluster + "-" + of.Name}, f.refuse("iam:GetRole")
}

func (f *fakeAWS) Network(context.Context) ([]cloud.Subnet, []cloud.SecurityGroup, error) {
	return []cloud.Subnet{{ID: "subnet-1"}}, nil, f.refuse("ec2:DescribeSubnets")
}

func (f *fakeAWS) Trail(_ context.Context, action string, _, _ time.Time, _ int) ([]cloud.TrailCall, error) {
	return []cloud.TrailCall{{Principal: action}}, f.refuse("cloudtrail:LookupEvents")
}

// apiServer is one with a controller that uses a name, and an EC2NodeClass.
func apiServer(t *testing.T, context, of, name string) Context {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "karpenter"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter", Labels: labels},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			ServiceAccountName: "karpenter",
			Containers: []corev1.Container{{Name: "controller", Image: "example.com/controller:1.15.0", Env: []corev1.EnvVar{
				{Name: "CLUSTER_NAME", Value: name}, {Name: "INTERRUPTION_QUEUE", Value: "q"},
			}}},
		}}},
	}
	class := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{"role": "nodes"},
	}}
	return Context{
		Name: context, Server: "https://proxy.example.com", Authority: authority(of),
		API: fake.NewClientBuilder().WithScheme(scheme).WithObjects(d, class).Build(),
	}
}

// TestRead: a context belongs to the EKS cluster of its certificate authority, which two profiles may show; one that belongs
// to none is read, too.
func TestRead(t *testing.T) {
	aws := &fakeAWS{account: account, region: region, clusters: []string{"blue", "green"}}
	r := Reader{
		Places:           []Place{{Region: region, AWS: aws}, {Profile: "admin", Region: region, AWS: aws}},
		Contexts:         []Context{apiServer(t, "a", "green", "blue"), apiServer(t, "b", "green", "blue"), apiServer(t, "c", "elsewhere", "x")},
		ControllerLabels: map[string]string{"app": "karpenter"},
	}
	r.Since, r.Now = time.Now().Add(-time.Hour), time.Now()
	o := r.Read(t.Context())
	if len(o.Trails) != 1 || o.Trails[0].Launched[0].Principal != cloud.RunInstances || o.Trails[0].Terminated[0].Principal != cloud.TerminateInstances {
		t.Errorf("trails %+v", o.Trails)
	}
	var got []string
	for _, c := range o.Clusters {
		line := strings.Join([]string{c.Account, c.Region, c.Name, c.Context}, "/")
		for _, one := range c.Controllers {
			line += " " + strings.Join([]string{one.ClusterName, one.Queue, one.Version, one.RoleARN}, " ")
		}
		for i := range c.Classes {
			line += " " + c.Classes[i].Spec.Role
		}
		got = append(got, line)
	}
	want := []string{
		"///c x q 1.15.0  nodes",
		"111122223333/eu-west-1/blue/",
		"111122223333/eu-west-1/green/a blue q 1.15.0 arn:aws:iam::111122223333:role/green-karpenter nodes",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(o.Unread) > 0 || len(o.Networks) != 1 || aws.calls["ec2:DescribeSubnets"] != 1 {
		t.Errorf("unread %v, networks %v, calls %v", o.Unread, o.Networks, aws.calls)
	}
}

// TestReadDenied: each denied call is unknown, with the missing action, and the rest is read.
func TestReadDenied(t *testing.T) {
	for _, action := range []string{"sts:GetCallerIdentity", "eks:ListClusters", "eks:DescribeCluster", "iam:GetRole", "ec2:DescribeSubnets", "cloudtrail:LookupEvents"} {
		aws := &fakeAWS{account: account, region: region, clusters: []string{"green"}, denies: action}
		r := Reader{
			Places: []Place{{Profile: "dev", Region: region, AWS: aws}}, Contexts: []Context{apiServer(t, "a", "green", "green")},
			ControllerLabels: map[string]string{"app": "karpenter"}, Since: time.Now().Add(-time.Hour), Now: time.Now(),
		}
		found := Judge(r.Read(t.Context()))
		var actions []string
		for _, f := range found {
			actions = append(actions, f.Action)
		}
		if !Incomplete(found) || !strings.Contains(strings.Join(actions, " "), action) || Found(found) {
			t.Errorf("%s is denied: %+v", action, found)
		}
	}
}

// TestFaults: while AWS does not answer, or not completely, everything is unknown, and nothing is found.
func TestFaults(t *testing.T) {
	for name, err := range map[string]error{
		"throttled":           &cloud.ThrottledError{Action: "eks:ListClusters"},
		"slow":                &cloud.UnreachableError{Action: "eks:ListClusters", Detail: "no answer in time"},
		"partial":             &cloud.PartialError{Action: "eks:ListClusters"},
		"expired credentials": &cloud.CredentialsError{Action: "eks:ListClusters", Code: "ExpiredToken"},
		"clock skew":          &cloud.CredentialsError{Action: "eks:ListClusters", Code: "RequestExpired", Skewed: true},
		"a service control policy": &cloud.DeniedError{
			Action: "eks:ListClusters", Resource: "*", Explicit: true, Detail: "with an explicit deny in a service control policy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			aws := &fakeAWS{account: account, region: region, clusters: []string{"green"}, fails: err}
			r := Reader{
				Places: []Place{{Region: region, AWS: aws}}, Contexts: []Context{apiServer(t, "a", "green", "green")},
				ControllerLabels: map[string]string{"app": "karpenter"}, Since: time.Now().Add(-time.Hour), Now: time.Now(),
			}
			found := Judge(r.Read(t.Context()))
			if !Incomplete(found) || Found(found) {
				t.Errorf("%+v", found)
			}
			says := slices.ContainsFunc(found, func(f Finding) bool { return strings.Contains(f.Message, "eks:ListClusters") })
			if name != "partial" && !says {
				t.Errorf("no finding names the call: %+v", found)
			}
		})
	}
}

// TestTwoRegions: clusters of one name in two regions are two clusters, each with its own role, and neither is a mistake; one
// region that does not answer is unknown, and the other one is read.
func TestTwoRegions(t *testing.T) {
	here := &fakeAWS{account: account, region: region, clusters: []string{"green"}}
	there := &fakeAWS{account: account, region: "us-east-1", clusters: []string{"green"}}
	places := []Place{{Region: region, AWS: here}, {Region: "us-east-1", AWS: there}}
	o := (&Reader{Places: places}).Read(t.Context())
	if len(o.Clusters) != 2 || len(o.Networks) != 2 || o.Clusters[0].Region != region || o.Clusters[1].Region != "us-east-1" {
		t.Errorf("clusters %+v, networks %+v", o.Clusters, o.Networks)
	}
	if found := Judge(o); Found(found) || Incomplete(found) {
		t.Errorf("%+v", found)
	}
	there.fails = &cloud.UnreachableError{Action: "eks:ListClusters", Detail: "no answer in time"}
	o = (&Reader{Places: places}).Read(t.Context())
	if found := Judge(o); len(o.Clusters) != 1 || !Incomplete(found) || Found(found) {
		t.Errorf("%d clusters, %+v", len(o.Clusters), found)
	}
}
