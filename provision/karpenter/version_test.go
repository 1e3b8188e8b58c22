package karpenter

import (
	"errors"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
)

func mustParse(t *testing.T, version string) *semver.Version {
	t.Helper()
	v, err := parse(version)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"1.14.3": "1.14.3", "v0.31.4": "0.31.4", "1.15.0-rc.1": "1.15.0-rc.1",
		"1.14": "", "": "", "v": "", "latest": "", "1.x": "", ">=1.0.0": "", "1.14.3 ": "",
	} {
		v, err := parse(text)
		var bad *VersionError
		switch {
		case want == "" && !errors.As(err, &bad):
			t.Errorf("%q: %v, %v", text, v, err)
		case want != "" && (err != nil || v.String() != want):
			t.Errorf("%q: %v, %v", text, v, err)
		}
	}
}

// TestTablesAreInOrder: at and between read them from the top.
func TestTablesAreInOrder(t *testing.T) {
	inOrder := func(name string, since []string) {
		for i := 1; i < len(since); i++ {
			if mustParse(t, since[i]).LessThan(mustParse(t, since[i-1])) {
				t.Errorf("%s: %s after %s", name, since[i], since[i-1])
			}
		}
		if last := mustParse(t, since[len(since)-1]); last.GreaterThan(mustParse(t, newest)) {
			t.Errorf("%s: %s is newer than %s", name, last, newest)
		}
	}
	inOrder("kubernetes", column(kubernetes))
	inOrder("permissions", column(permissions))
	inOrder("changes", column(changes))
	inOrder("metrics", column(metrics))
	inOrder("NodePool hash", column(nodePoolHash))
	inOrder("EC2NodeClass hash", column(ec2NodeClassHash))
	var since, least []string
	for _, s := range settings {
		since = append(since, s.Since)
	}
	for _, l := range lines {
		least = append(least, l.least, l.leave, l.stop)
	}
	inOrder("settings", since)
	inOrder("lines", least)
}

func column[T any](table []row[T]) []string {
	var since []string
	for _, r := range table {
		since = append(since, r.since)
	}
	return since
}

// contents returns what a table contains, in its order.
func contents[T any](table []row[T]) []T {
	var all []T
	for _, r := range table {
		all = append(all, r.is)
	}
	return all
}

// TestOtherRelease: another build of a version is not another release, nor is an invalid version.
func TestOtherRelease(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"1.14.3", "1.14.3"}: false, {"v1.14.3", "1.14.3-fips+2"}: false, {"1.14.0", "1.14.3"}: true, {"1.8.1", "1.14.3"}: true, {"2.14.1", "1.14.3"}: true,
		{"unknown", "1.14.3"}: false, {"1.14.3", ""}: false,
	} {
		if got := OtherRelease(pair[0], pair[1]); got != want {
			t.Errorf("%v: %t", pair, got)
		}
	}
}

func TestCheckKubernetes(t *testing.T) {
	cases := map[string]struct {
		kubernetes, karpenter string
		says                  string
	}{
		"in the middle":              {"1.33", "1.8.6", ""},
		"the newest":                 {"1.36", "1.14.3", ""},
		"the oldest":                 {"1.26", "1.14.3", ""},
		"as EKS writes it":           {"v1.34.2-eks-99d6cc0", "1.9.0", ""},
		"as a minor number with +":   {"1.35+", "1.9.0", ""},
		"one past the newest":        {"v1.34.1", "1.6.3", "karpenter 1.6.3 knows kubernetes 1.26 to 1.33, and the cluster's is 1.34: set version 1.6.6 or later in plumbline.yaml"},
		"a backport":                 {"1.34", "1.6.6", ""},
		"a minor without it":         {"1.34", "1.7.0", "karpenter 1.7.0 knows kubernetes 1.26 to 1.33, and the cluster's is 1.34: set version 1.7.4 or later in plumbline.yaml"},
		"far past the newest":        {"1.36", "1.0.8", "karpenter 1.0.8 knows kubernetes 1.25 to 1.31, and the cluster's is 1.36: set version 1.13.0 or later in plumbline.yaml"},
		"newer than all: untested":   {"1.38", "1.15.0", ""},
		"one that an LTS never gets": {"1.37", "1.14.3", "karpenter 1.14.3 knows kubernetes 1.26 to 1.36, and the cluster's is 1.37: set version 1.15.0 or later in plumbline.yaml"},
		"too old":                    {"1.25", "1.14.3", "karpenter 1.14.3 knows kubernetes 1.26 to 1.36, and the cluster's is 1.25: upgrade kubernetes to 1.26 first"},
		"a patch that came too late": {"1.31", "1.0.4", "karpenter 1.0.4 knows kubernetes 1.25 to 1.30, and the cluster's is 1.31: set version 1.0.5 or later in plumbline.yaml"},
		"newer than the tables":      {"1.40", "1.16.0", ""},
		"older than the tables":      {"1.40", "0.20.0", ""},
		"a patch of the newest":      {"1.37", "1.15.9", ""},
		"no version of Kubernetes":   {"main", "1.14.3", `version "main" of Kubernetes is invalid: it must be 1.MINOR`},
		"no version of Karpenter":    {"1.33", "1.14", `version of karpenter is "1.14": give one full version such as 1.15.0, without a range`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := CheckKubernetes(c.kubernetes, c.karpenter)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if diff := cmp.Diff(c.says, said); diff != "" {
				t.Error(diff)
			}
		})
	}
	var refused *KubernetesError
	if err := CheckKubernetes("1.34", "1.6.3"); !errors.As(err, &refused) || refused.Use != "1.6.6" || refused.Minor != 34 {
		t.Errorf("%#v", err)
	}
}

func TestPath(t *testing.T) {
	cases := map[string]struct {
		from, to string
		stops    []string
	}{
		"nothing to do":                 {"1.14.3", "1.14.3", nil},
		"within the newest":             {"1.8.6", "1.14.3", []string{"1.14.3"}},
		"from the first of the newest":  {"1.1.0", "1.14.3", []string{"1.14.3"}},
		"past 1.0":                      {"1.0.8", "1.14.3", []string{"1.14.3"}},
		"the first patch that may":      {"1.0.6", "1.1.0", []string{"1.1.0"}},
		"a patch of 1.0 that may not":   {"1.0.5", "1.1.0", []string{"1.0.14", "1.1.0"}},
		"within 1.0":                    {"1.0.3", "1.0.8", []string{"1.0.8"}},
		"into 1.0":                      {"0.37.7", "1.0.3", []string{"1.0.3"}},
		"over 1.0":                      {"0.33.0", "1.3.3", []string{"1.0.14", "1.3.3"}},
		"within 0.33 to 0.37":           {"0.33.0", "0.36.9", []string{"0.36.9"}},
		"from 0.32":                     {"0.32.1", "1.14.3", []string{"0.37.7", "1.0.14", "1.14.3"}},
		"into 0.33":                     {"0.32.1", "0.33.12", []string{"0.33.12"}},
		"the whole way":                 {"0.27.6", "1.14.3", []string{"0.32.10", "0.37.7", "1.0.14", "1.14.3"}},
		"the whole way, with a v":       {"v0.31.4", "v0.34.0", []string{"0.32.10", "0.34.0"}},
		"into 0.32":                     {"0.31.4", "0.32.3", []string{"0.32.3"}},
		"to a version not known":        {"1.14.3", "1.17.0", []string{"1.17.0"}},
		"a candidate for 1.0":           {"0.37.7", "1.0.0-rc.1", []string{"1.0.0-rc.1"}},
		"to another build":              {"1.14.0", "1.14.0+acme.3", []string{"1.14.0+acme.3"}},
		"from a build to its release":   {"1.14.0+acme.3", "1.14.0", []string{"1.14.0"}},
		"the same build":                {"1.14.0+acme.3", "1.14.0+acme.3", nil},
		"a build past a gate":           {"1.0.3", "1.14.0+acme.3", []string{"1.0.14", "1.14.0+acme.3"}},
		"back":                          {"1.14.3", "1.8.6", []string{"1.8.6"}},
		"back into 1.0":                 {"1.14.3", "1.0.8", []string{"1.0.8"}},
		"from a candidate to its final": {"1.14.0-rc.1", "1.14.0", []string{"1.14.0"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path, err := Path(c.from, c.to)
			if err != nil {
				t.Fatal(err)
			}
			var stops []string
			last := strings.TrimPrefix(c.from, "v")
			for _, hop := range path {
				if hop.From != last {
					t.Errorf("a hop from %s, after one to %s", hop.From, last)
				}
				last = hop.To
				stops = append(stops, hop.To)
			}
			if diff := cmp.Diff(c.stops, stops); diff != "" {
				t.Error(diff)
			}
			var skipped *SkippedHopError
			if err := CheckHop(c.from, c.to); (len(stops) > 1) != errors.As(err, &skipped) {
				t.Errorf("at once: %v", err)
			}
			// The rest of the way starts where a hop ends.
			if len(path) > 1 {
				if err := CheckHop(c.from, path[0].To); err != nil {
					t.Errorf("the first hop: %v", err)
				}
			}
		})
	}
}

func TestPathRefused(t *testing.T) {
	cases := map[string]struct{ from, to, says string }{
		"back past what is managed": {"1.14.3", "0.37.7", "karpenter 1.14.3 cannot be downgraded to 0.37.7: plumbline manages karpenter 1.0.0 and later"},
		"no version":                {"1.14.3", "newest", `version of karpenter is "newest": give one full version such as 1.15.0, without a range`},
		"from no version":           {"1.x", "1.14.3", `version of karpenter is "1.x": give one full version such as 1.15.0, without a range`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if path, err := Path(c.from, c.to); path != nil || err == nil || err.Error() != c.says {
				t.Errorf("%v, %v", path, err)
			}
		})
	}
	want := "karpenter 1.0.3 cannot be upgraded to 1.14.3 at once: set version 1.0.14 in plumbline.yaml first; plumbline upgrade --to 1.14.3 prints the way"
	if err := CheckHop("1.0.3", "1.14.3"); err == nil || err.Error() != want {
		t.Errorf("says %v", err)
	}
}

// TestHop: each hop has its requirements, and none of an earlier hop.
func TestHop(t *testing.T) {
	cases := map[string]struct {
		from, to string
		want     Hop
	}{
		"the last known step": {"1.14.3", "1.15.0", Hop{
			Kubernetes:  Kubernetes{26, 37},
			Permissions: []Permission{{"ec2:RebootInstances", "1.15.0", "settings.awsFeatureGates.rebootForRepair, under the tags that ec2:TerminateInstances requires"}},
			Hashes:      []HashChange{{"EC2NodeClass", "v5", "v6"}},
			Breaking: []string{
				"since 1.15.0 with the feature gate nodeRepair, unhealthy nodes are replaced within the disruption budgets, before drifted ones: a budget of 0 stops repair, unless its reasons leave out Unhealthy; settings.legacyNodeRepair keeps the old controller",
				"since 1.15.0 the API server does not check the fields of spec.kubelet any more: with an unknown field, or one that the AMI family does not apply (podsPerCore with Bottlerocket, a second clusterDNS without AL2023), an EC2NodeClass is not Ready, and launches no node",
			},
			Metrics: contents(metrics),
			Notes: []string{
				"since 1.15.0 spec.disruption.consolidateAfter is optional in NodePools, 0s by default",
			},
		}},
		"within the LTS": {"1.14.1", "1.14.3", Hop{Kubernetes: Kubernetes{26, 36}}},
		"a step before that": {"1.12.1", "1.14.3", Hop{
			Kubernetes: Kubernetes{26, 36},
			Notes:      []string{"since 1.14.0 karpenter-crd adds a fifth CRD, capacitybuffers.autoscaling.x-k8s.io"},
		}},
		"permissions and a hash": {"1.8.6", "1.12.1", Hop{
			Kubernetes: Kubernetes{26, 35},
			Permissions: []Permission{
				{"ec2:DescribePlacementGroups", "1.11.0", "placement groups"},
				{"ec2:DescribeInstanceStatus", "1.12.0", ""},
				{"arc-zonal-shift:GetManagedResource", "1.12.0", "settings.enableZonalShift"},
			},
			Hashes: []HashChange{{"EC2NodeClass", "v4", "v5"}},
			Notes:  []string{"since 1.10.0 interruptible capacity reservations need one more EventBridge rule: EC2 Capacity Reservation Instance Interruption Warning"},
		}},
		"the gate at 1.1": {"1.0.8", "1.1.0", Hop{
			Kubernetes: Kubernetes{25, 31},
			Before:     lines[4].before,
			Settings:   settings[len(settings)-6:],
			Hashes:     []HashChange{{"EC2NodeClass", "v3", "v4"}},
		}},
		"from the version itself": {"1.7.0", "1.8.6", Hop{Kubernetes: Kubernetes{26, 34}}},
		"to the version itself": {"1.6.8", "1.7.0", Hop{
			Kubernetes:  Kubernetes{26, 33},
			Permissions: []Permission{{"iam:ListInstanceProfiles", "1.7.0", ""}},
			Notes:       []string{"since 1.7.0 new instance profiles have the path /karpenter/{region}/{cluster}/{uid}/: a policy that names them by path must allow it"},
		}},
		"a patch": {"1.8.0", "1.8.6", Hop{Kubernetes: Kubernetes{26, 34}}},
		"not known": {"1.15.0", "1.17.0", Hop{
			Notes: []string{"newer than 1.15.0, the newest that this plumbline knows: read its upgrade guide for what else it needs"},
		}},
		"back": {"1.14.3", "1.8.6", Hop{
			Kubernetes: Kubernetes{26, 34},
			Before: []string{
				"no CRD loses a version that status.storedVersions lists, and every object passes the older schema: both are checked before anything moves",
				"values and fields that are newer than 1.8.6 are out of the repository",
			},
			Hashes: []HashChange{{"EC2NodeClass", "v5", "v4"}},
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path, err := Path(c.from, c.to)
			if err != nil || len(path) != 1 {
				t.Fatal(path, err)
			}
			c.want.From, c.want.To = c.from, c.to
			if diff := cmp.Diff(c.want, path[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNothingIsLostOnTheWay: the requirements are the same however a way is split into hops.
func TestNothingIsLostOnTheWay(t *testing.T) {
	whole, err := Path("0.27.0", newest)
	if err != nil {
		t.Fatal(err)
	}
	var gone []Setting
	var asked []Permission
	for _, hop := range whole {
		gone = append(gone, hop.Settings...)
		asked = append(asked, hop.Permissions...)
	}
	if diff := cmp.Diff(settings, gone); diff != "" {
		t.Errorf("settings:\n%s", diff)
	}
	all, err := Permissions("0.27.0", newest)
	if err != nil || len(all) != len(permissions) {
		t.Errorf("%d of %d permissions, %v", len(all), len(permissions), err)
	}
	if diff := cmp.Diff(all, asked); diff != "" {
		t.Errorf("permissions:\n%s", diff)
	}
}
