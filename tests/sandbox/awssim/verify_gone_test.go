package awssim_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// verify runs `plumbline verify --gone` for a cluster, as a process, against the account.
type verify struct {
	*account
	program, key string
}

func newVerify(t *testing.T) verify {
	t.Helper()
	program := filepath.Join(t.TempDir(), "plumbline")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "./cmd/plumbline")
	build.Dir = filepath.Join("..", "..", "..")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return verify{newAccount(t, awssim.Options{}), program, "tester"}
}

// run returns the program's exit code and its output.
func (v verify) run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return v.exec(t, append([]string{"verify", "--gone", "--cluster", clusterName, "--region", region}, args...)...)
}

// exec runs the program, without a kubeconfig.
func (v verify) exec(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), v.program, args...)
	cmd.Env = []string{"AWS_ENDPOINT_URL=" + v.url, "AWS_ACCESS_KEY_ID=" + v.key, "AWS_SECRET_ACCESS_KEY=secret", "AWS_CONFIG_FILE=/none", "AWS_SHARED_CREDENTIALS_FILE=/none"}
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// left returns the IDs that the program reports as left, by kind.
func (v verify) left(t *testing.T) map[string][]string {
	t.Helper()
	code, out, errs := v.run(t, "-o", "json")
	if code != 4 {
		t.Fatalf("exit code %d, want 4: %s%s", code, out, errs)
	}
	var report struct {
		Kinds []struct {
			Kind string
			Left []struct{ ID string }
		}
	}
	noError(t, json.Unmarshal([]byte(out), &report))
	ids := map[string][]string{}
	for _, kind := range report.Kinds {
		for _, item := range kind.Left {
			ids[kind.Kind] = append(ids[kind.Kind], item.ID)
		}
	}
	return ids
}

// TestVerifyGone: the program lists what the account has of a cluster, however the answers are split into pages.
func TestVerifyGone(t *testing.T) {
	v := newVerify(t)
	owned := map[string]string{"kubernetes.io/cluster/" + clusterName: "owned"}
	noError(t, v.AddCluster(awssim.Cluster{Name: "staging", Version: "1.36"}))
	theirs := v.CreateVolume("eu-west-1a", 8, map[string]string{"kubernetes.io/cluster/staging": "owned"})
	_, err := v.AddNode("staging", "general")
	noError(t, err)
	if code, out, errs := v.run(t); code != 0 || !strings.Contains(out, "nothing is left") {
		t.Fatalf("nothing is left: exit code %d, %s%s", code, out, errs)
	}
	for _, action := range []string{"DescribeInstances", "DescribeVolumes", "DescribeNetworkInterfaces", "DescribeLaunchTemplates", "ListInstanceProfiles"} {
		if asked := len(v.Calls("", action)); asked < 2 {
			t.Errorf("%s was asked %d times, want twice at least", action, asked)
		}
	}

	want := map[string][]string{"Instance": v.launch(t, 1)}
	for range 30 {
		want["Volume"] = append(want["Volume"], v.CreateVolume("eu-west-1a", 8, owned))
	}
	eni, err := v.AddInterface(clusterName, map[string]string{"cluster.k8s.amazonaws.com/name": clusterName, "node.k8s.amazonaws.com/instance_id": "i-gone"})
	noError(t, err)
	want["NetworkInterface"] = []string{eni}
	// the one that launch creates has no name of Karpenter's
	want["LaunchTemplate"] = []string{v.template(t, "karpenter.k8s.aws/1", ec2types.ArchitectureValuesX8664)}
	want["InstanceProfile"] = v.profiles(t)
	for _, ids := range want {
		slices.Sort(ids)
	}
	if diff := cmp.Diff(want, v.left(t)); diff != "" || slices.Contains(want["Volume"], theirs) {
		t.Errorf("left (-want +got):\n%s", diff)
	}

	// the instance's root volume and its interface are deleted with it; the template is kept
	noError(t, v.Terminate(want["Instance"][0]))
	delete(want, "Instance")
	if diff := cmp.Diff(want, v.left(t)); diff != "" {
		t.Errorf("left after the instance (-want +got):\n%s", diff)
	}
}

// profiles adds instance profiles of several creators, and returns those of the cluster's Karpenter.
func (v verify) profiles(t *testing.T) (ours []string) {
	t.Helper()
	add := func(name, path, at string) {
		tags := []types.Tag{{Key: aws.String("kubernetes.io/cluster/" + clusterName), Value: aws.String("owned")}, {Key: aws.String("topology.kubernetes.io/region"), Value: aws.String(at)}}
		_, err := v.iam().CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String(name), Path: aws.String(path), Tags: tags})
		noError(t, err)
	}
	for n := range 120 {
		add(fmt.Sprintf("app-%d", n), "/", region)
	}
	add(clusterName+"_1", "/karpenter/"+region+"/"+clusterName+"/uid/", region)
	add(clusterName+"_2", "/", region) // from an older release
	add(clusterName+"_3", "/", "us-east-1")
	add(clusterName+"_4", "/karpenter/us-east-1/"+clusterName+"/uid/", "us-east-1")
	add(clusterName+"_app", "/", region)
	return []string{clusterName + "_1", clusterName + "_2"}
}

// TestVerifyGoneNeedsEveryAnswer: a denied query never counts as "nothing".
func TestVerifyGoneNeedsEveryAnswer(t *testing.T) {
	v := newVerify(t)
	for _, action := range []string{"ec2:DescribeInstances", "ec2:DescribeVolumes", "ec2:DescribeNetworkInterfaces", "ec2:DescribeLaunchTemplates", "iam:ListInstanceProfiles"} {
		service, call, _ := strings.Cut(action, ":")
		_, err := v.AddFault(awssim.Fault{Service: service, Action: call, Kind: awssim.Deny})
		noError(t, err)
		code, out, errs := v.run(t)
		if code != 1 || !strings.Contains(out, "allow "+action+" to the credentials in use") || strings.Contains(out, "nothing is left") {
			t.Errorf("%s denied: exit code %d, %s%s", action, code, out, errs)
		}
		v.RemoveFaults("")
	}
	if code, out, errs := v.run(t, "--account", "111122223333"); code != 1 || !strings.Contains(errs, "the AWS credentials are for account 000000000000") {
		t.Errorf("another account: exit code %d, %s%s", code, out, errs)
	}
}

// TestVerifyGonePolicy: manifests/iam-policy-verify.json suffices for every query, and plumbline's own policy does not.
func TestVerifyGonePolicy(t *testing.T) {
	v := newVerify(t)
	v.profiles(t)
	for file, want := range map[string]int{"iam-policy-verify.json": 4, "iam-policy.json": 1} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "manifests", file))
		noError(t, err)
		filled := strings.NewReplacer("${PARTITION}", "aws", "${REGION}", region, "${ACCOUNT}", "000000000000", "${CLUSTER_NAME}", clusterName).Replace(string(text))
		name := strings.TrimSuffix(file, ".json")
		client := v.as(t, name, filled)
		v.key = name
		if code, out, errs := v.run(t); code != want {
			t.Errorf("%s: exit code %d, want %d: %s%s", file, code, want, out, errs)
		}
		_, err = client.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: aws.String(v.CreateVolume("eu-west-1a", 8, nil))})
		wantCode(t, err, "UnauthorizedOperation")
	}
}

// TestAnInterfaceThatIsLeft: one without an instance is available, can be found as such, and deleted.
func TestAnInterfaceThatIsLeft(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.launch(t, 1)
	id, err := a.AddInterface(clusterName, nil)
	noError(t, err)
	out, err := a.ec2().DescribeNetworkInterfaces(t.Context(), &ec2.DescribeNetworkInterfacesInput{
		Filters: []ec2types.Filter{{Name: aws.String("status"), Values: []string{"available"}}},
	})
	noError(t, err)
	if len(out.NetworkInterfaces) != 1 || *out.NetworkInterfaces[0].NetworkInterfaceId != id || out.NetworkInterfaces[0].Attachment != nil {
		t.Errorf("available: %+v, want %s without an attachment", out.NetworkInterfaces, id)
	}
	_, err = a.ec2().DeleteNetworkInterface(t.Context(), &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: aws.String(id)})
	noError(t, err)
	_, err = a.ec2().DescribeNetworkInterfaces(t.Context(), &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{id}})
	wantCode(t, err, "InvalidNetworkInterfaceID.NotFound")
}
