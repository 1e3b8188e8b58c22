package nodegroup

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func found(groups ...cloud.NodeGroup) Found {
	return Found{
		Cluster: "prod", Region: "eu-west-1", Kubernetes: "1.36", SecurityGroup: "sg-0c1", Groups: groups, InterruptionQueue: "prod",
		Subnets: map[string]cloud.Subnet{"subnet-0a": {ID: "subnet-0a", Zone: "eu-west-1a"}, "subnet-0b": {ID: "subnet-0b", Zone: "eu-west-1b"}, "subnet-0c": {ID: "subnet-0c", Zone: "eu-west-1c", PublicAddress: true}},
		Sizes:   map[string]cloud.Size{"m5.xlarge": {CPU: 4, MiB: 16384, Archs: []string{"amd64"}}, "m6g.large": {CPU: 2, MiB: 8192, Archs: []string{"arm64"}}},
		Pins:    map[string]string{"al2023": "al2023@v20251103", "bottlerocket": "bottlerocket@v1.47.0"},
		Images:  map[string]resolve.Image{"ami-0a": {ID: "ami-0a", Name: "amazon-eks-node-al2023-x86_64-standard-1.36-v20251002"}, "ami-0b": {ID: "ami-0b", Name: "acme-golden"}},
	}
}

func group(change func(*cloud.NodeGroup)) cloud.NodeGroup {
	g := cloud.NodeGroup{
		Name: "web", AMIType: "AL2023_x86_64_STANDARD", CapacityType: "ON_DEMAND", InstanceTypes: []string{"m5.xlarge"},
		RoleARN: "arn:aws:iam::111122223333:role/eks/nodes-of-web", Subnets: []string{"subnet-0a", "subnet-0b"}, Min: 2, Max: 6, Desired: 3,
	}
	if change != nil {
		change(&g)
	}
	return g
}

// text returns all files, and the notes, as they are reviewed.
func textOf(r Result) string {
	var b strings.Builder
	for _, f := range r.Files {
		b.WriteString("-- " + f.Name + " --\n" + f.Text)
	}
	b.WriteString("-- notes --\n")
	for _, n := range r.Notes {
		b.WriteString(string(n.Kind) + " " + n.Object + " " + n.Field + ": " + n.Text + "\n")
	}
	return b.String()
}

// TestGolden checks the files and notes for several clusters.
func TestGolden(t *testing.T) {
	on := true
	for name, c := range map[string]struct {
		found   Found
		options Options
	}{
		"one-group": {found: found(group(nil))},
		"no-group":  {found: Found{Cluster: "prod", Region: "eu-west-1", Kubernetes: "1.36", SecurityGroup: "sg-0c1", Subnets: found().Subnets, Pins: found().Pins}},
		"several-groups": {found: found(group(nil), group(func(g *cloud.NodeGroup) {
			g.Name, g.AMIType, g.CapacityType, g.InstanceTypes = "arm", "AL2023_ARM_64_STANDARD", "SPOT", []string{"m6g.large"}
		}))},
		"equal": {found: found(group(func(g *cloud.NodeGroup) {
			g.CapacityType, g.DiskGiB, g.SSHKey, g.RemoteGroup, g.Repair = "SPOT", 50, "ada", "sg-0ee", true
			g.Labels = map[string]string{"team": "shop", "app.kubernetes.io/part-of": "shop"}
			g.Taints = []cloud.NodeTaint{{Key: "web", Value: "yes", Effect: "NoSchedule"}}
		})), options: Options{From: []string{"web"}}},
		"equal-launch-template": {found: found(group(func(g *cloud.NodeGroup) {
			g.Template = &cloud.LaunchTemplate{
				ID: "lt-1", Version: "3", UserData: "#!/bin/bash\necho \"${HOME}\"\n", SecurityGroups: []string{"sg-01"}, Monitoring: true, PublicAddress: &on,
				Disks: []cloud.Disk{{Device: "/dev/xvda", Type: "gp3", GiB: 80, IOPS: 4000, Encrypted: &on}}, Metadata: &cloud.Metadata{Tokens: "required", HopLimit: 1},
				InstanceTags: map[string]string{"Name": "web", "kubernetes.io/cluster/prod": "owned"}, Other: []string{"CpuOptions"},
			}
		})), options: Options{From: []string{"web"}, NodeRole: "KarpenterNodeRole-prod"}},
		"equal-custom-ami": {found: found(group(func(g *cloud.NodeGroup) {
			g.AMIType, g.Template = "CUSTOM", &cloud.LaunchTemplate{ImageID: "ami-0a", UserData: "/etc/eks/bootstrap.sh prod"}
		})), options: Options{From: []string{"web"}}},
		"equal-unknown-ami": {found: found(group(func(g *cloud.NodeGroup) {
			g.AMIType, g.Template = "CUSTOM", &cloud.LaunchTemplate{ImageID: "ami-0b", ReservationID: "cr-1"}
		})), options: Options{From: []string{"web"}}},
		"equal-bottlerocket": {found: found(group(func(g *cloud.NodeGroup) { g.AMIType, g.DiskGiB = "BOTTLEROCKET_x86_64", 60 })), options: Options{From: []string{"web"}}},
		"equal-windows":      {found: found(group(func(g *cloud.NodeGroup) { g.AMIType, g.DiskGiB = "WINDOWS_FULL_2022_x86_64", 60 })), options: Options{From: []string{"web"}}},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := Make(c.found, c.options)
			if err != nil {
				t.Fatal(err)
			}
			got, file := textOf(made), filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRestrictedLabels checks which labels a NodePool may not set, by version of Karpenter.
func TestRestrictedLabels(t *testing.T) {
	for key, want := range map[string][2]bool{ // 1.8.0, 1.15.0
		"team": {}, "app.kubernetes.io/name": {true, false}, "node.kubernetes.io/role": {}, "karpenter.sh/x": {true, true}, "kubernetes.io/hostname": {true, true},
	} {
		if got := [2]bool{restricted(key, "1.8.0"), restricted(key, "1.15.0")}; got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
}

// TestRefusals checks what is refused rather than guessed.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		found   Found
		options Options
		want    string
	}{
		"no such group":     {found(), Options{From: []string{"web"}}, "has no managed node group web: it has none"},
		"no release":        {found(group(func(g *cloud.NodeGroup) { g.AMIType = "AL2_x86_64" })), Options{From: []string{"web"}}, "node group web: its AMI type is AL2_x86_64, and AWS publishes no AMI of the family al2 for Kubernetes 1.36"},
		"an unknown type":   {found(group(func(g *cloud.NodeGroup) { g.AMIType = "AL2030_x86_64" })), Options{From: []string{"web"}}, "its launch template names no AMI"},
		"no subnet":         {Found{Cluster: "prod", Pins: map[string]string{"al2023": "al2023@v1"}}, Options{}, "no subnet for nodes found"},
		"two of one name":   {found(group(func(g *cloud.NodeGroup) { g.Name = "a_b" }), group(func(g *cloud.NodeGroup) { g.Name = "A-b" })), Options{From: []string{"a_b", "A-b"}}, "the same name in Kubernetes"},
		"nothing published": {Found{Cluster: "prod", Kubernetes: "1.99"}, Options{}, "AWS publishes no AMI of the family al2023 for Kubernetes 1.99"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Make(c.found, c.options); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}
