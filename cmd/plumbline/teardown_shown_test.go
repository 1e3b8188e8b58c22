package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// owned returns a resource of this cluster only, which may be deleted.
func owned(kind cloud.Kind, id string) cloud.Resource {
	r := cloud.Resource{Kind: kind, ID: id, Tags: map[string]string{"kubernetes.io/cluster/demo": "owned", "karpenter.sh/nodepool": "general"}}
	switch kind {
	case cloud.KindInstance:
		r.State = "running"
	case cloud.KindVolume, cloud.KindNetworkInterface:
		r.State = "available"
	case cloud.KindInstanceProfile:
		r.Name, r.Tags = "/karpenter/eu-west-1/demo/uid/", nil
	case cloud.KindLaunchTemplate:
	}
	return r
}

// remaining returns AWS's answers for each kind.
func remaining(resources ...cloud.Resource) (answers []cloud.Answer) {
	for _, kind := range []cloud.Kind{cloud.KindInstance, cloud.KindVolume, cloud.KindNetworkInterface, cloud.KindLaunchTemplate, cloud.KindInstanceProfile} {
		answer := cloud.Answer{Kind: kind}
		for _, r := range resources {
			if r.Kind == kind {
				answer.Resources = append(answer.Resources, r)
			}
		}
		answers = append(answers, answer)
	}
	return answers
}

// endGone runs the command for a cluster that no longer exists.
func endGone(t *testing.T, aws *remainsOf, by *endingAWS, args ...string) said {
	t.Helper()
	return teardownOver(t.Context(), t, nil, aws, by, append(goneArgs(args...), "--kubeconfig", noServer(t))...)
}

// TestClusterGoneEndsWhatWasShown: no confirmed list contained a volume that is detached when its instance is
// terminated.
func TestClusterGoneEndsWhatWasShown(t *testing.T) {
	attached, free := owned(cloud.KindVolume, "vol-data"), owned(cloud.KindVolume, "vol-1")
	attached.State, attached.Instance, attached.Alive = "in-use", "i-1", true
	before := remaining(owned(cloud.KindInstance, "i-1"), free, attached)
	aws, by := awsAnswers(before, before, remaining(owned(cloud.KindVolume, "vol-data"))), &endingAWS{}
	got := endGone(t, aws, by, "--terminate", "--sweep", "--yes")
	if got.code != exitStalled || !slices.Equal(by.asked, []string{"i-1", "vol-1"}) || !strings.Contains(got.err, "left in AWS: 1 volume (vol-data)") {
		t.Errorf("code %d, ends %v: %s", got.code, by.asked, got.err)
	}
	for _, args := range [][]string{nil, {"--terminate", "--sweep"}} {
		const want = "attached to these: 1 volume (vol-data); volumes that remain after the termination are listed in the next run"
		if got := endGone(t, awsAnswers(before), &endingAWS{}, args...); !strings.Contains(got.err, want) {
			t.Errorf("%v says %s\nwant %q", args, got.err, want)
		}
	}
}

// TestClusterGoneAsksEKSAgain right before a deletion: a cluster of the name may have been created since.
func TestClusterGoneAsksEKSAgain(t *testing.T) {
	for from, want := range map[int][]string{2: nil, 3: {"i-1"}} {
		left := remaining(owned(cloud.KindInstance, "i-1"))
		aws, by := awsAnswers(left), &endingAWS{}
		aws.existsFrom = from
		got := endGone(t, aws, by, "--terminate", "--yes")
		if got.code != exitFailed || !slices.Equal(by.asked, want) || !strings.Contains(got.err, "EKS cluster demo still exists in eu-west-1") || strings.Contains(got.err, "nothing was changed") {
			t.Errorf("from question %d: code %d, ends %v, want %v: %s", from, got.code, by.asked, want, got.err)
		}
	}
}

// TestClusterGoneEndsProfilesLast: an instance needs its profile until EC2 has terminated it.
func TestClusterGoneEndsProfilesLast(t *testing.T) {
	instance, going, shared, profile := owned(cloud.KindInstance, "i-1"), owned(cloud.KindInstance, "i-1"), owned(cloud.KindInstance, "i-1"), owned(cloud.KindInstanceProfile, "demo_1")
	going.State, shared.Tags["kubernetes.io/cluster/stage"] = "shutting-down", "owned"
	runs := remaining(instance, profile)
	protected := map[string]error{"i-1": &cloud.AnswerError{Action: "ec2:TerminateInstances", Code: "OperationNotPermitted"}}
	both := []string{"--terminate", "--sweep", "--yes"}
	cases := map[string]struct {
		answers [][]cloud.Answer
		failed  map[string]error
		args    []string
		want    [][]string
	}{
		"after the instance":    {[][]cloud.Answer{runs, runs, remaining(going, profile), remaining(profile), nothingLeft}, nil, both, [][]string{{"i-1"}, {"demo_1"}}},
		"of one that is spared": {[][]cloud.Answer{remaining(shared, profile)}, nil, both, nil},
		"of one that runs on":   {[][]cloud.Answer{runs}, nil, []string{"--sweep", "--yes"}, nil},
		"of a protected one":    {[][]cloud.Answer{runs}, protected, both, [][]string{{"i-1"}, {"i-1"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			by := &endingAWS{failed: c.failed}
			got := endGone(t, awsAnswers(c.answers...), by, c.args...)
			if diff := cmp.Diff(c.want, by.passes); diff != "" {
				t.Errorf("ends (-want +got):\n%s%s", diff, got.err)
			}
		})
	}
}

// TestClusterGoneGoesOnBesideOneRefused: what AWS refuses is tried twice, and the rest is deleted.
func TestClusterGoneGoesOnBesideOneRefused(t *testing.T) {
	for name, refused := range map[string]error{
		"denied":    &cloud.DeniedError{Action: "ec2:TerminateInstances"},
		"protected": &cloud.AnswerError{Action: "ec2:TerminateInstances", Code: "OperationNotPermitted"},
		"not ours":  &cloud.ClaimError{Cluster: "demo"},
	} {
		t.Run(name, func(t *testing.T) {
			all := remaining(owned(cloud.KindInstance, "i-1"), owned(cloud.KindInstance, "i-2"), owned(cloud.KindVolume, "vol-1"))
			aws, by := awsAnswers(all, all, remaining(owned(cloud.KindInstance, "i-2"))), &endingAWS{failed: map[string]error{"i-2": refused}}
			got := endGone(t, aws, by, "--terminate", "--sweep", "--yes")
			if got.code != exitStalled || !slices.Equal(by.asked, []string{"i-1", "i-2", "vol-1", "i-2"}) || !strings.Contains(got.err, "left in AWS: 1 instance (i-2)") {
				t.Errorf("code %d, ends %v: %s", got.code, by.asked, got.err)
			}
		})
	}
}

// TestTeardownAgain: the command to continue asks for a confirmation, unless a flag has confirmed it.
func TestTeardownAgain(t *testing.T) {
	for _, yes := range []bool{false, true} {
		to := teardownCommand{gone: true, yes: yes, v: verification{cluster: "demo", region: "eu-west-1"}}
		if words := to.continueCommand(); strings.Contains(words, " --yes") != yes {
			t.Errorf("--yes %t: %s", yes, words)
		}
	}
}

// TestClusterGoneElsewhere: an empty region proves little if the cluster was in another one.
func TestClusterGoneElsewhere(t *testing.T) {
	typo := remaining()
	typo[len(typo)-1].Elsewhere = []string{"eu-west-2"}
	const want = "nothing of cluster demo is in eu-west-1, but it has instance profiles for eu-west-2: check --region"
	if got := endGone(t, awsAnswers(typo), &endingAWS{}, "--terminate", "--sweep", "--yes"); got.code != exitFailed || !strings.Contains(got.err, want) {
		t.Errorf("code %d, says %s, want %q", got.code, got.err, want)
	}
}
