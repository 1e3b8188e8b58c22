package iam

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/internal/modcache"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

func prod() Cluster {
	return Cluster{Name: "prod", Region: "eu-west-1", Account: "111122223333", Queue: "prod"}
}

func documents(policies []Policy) []Document {
	var all []Document
	for _, p := range policies {
		all = append(all, p.Document)
	}
	return all
}

func controller(t *testing.T, version string, c Cluster) []Policy {
	t.Helper()
	policies, err := Controller(version, c)
	if err != nil {
		t.Fatal(err)
	}
	return policies
}

// ofAnyCluster are the statements that are not about a cluster's resources: what instances are launched with, and reads.
var ofAnyCluster = []string{"LaunchWith", "ReadEC2", "ReadImageParameters", "ReadPrices", "ReadProfiles", "ListProfiles"}

// TestControllerAllowsOneCluster: every call of every version is allowed for the cluster's resources, and denied for
// those of another cluster; and every policy can be created.
func TestControllerAllowsOneCluster(t *testing.T) {
	for _, version := range []string{"1.0.8", "1.6.3", "1.15.0"} {
		for partition, region := range map[string]string{"aws": "eu-west-1", "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"} {
			for _, length := range []int{1, 10, 40, 100} {
				t.Run(fmt.Sprintf("%s in %s, name of %d", version, partition, length), func(t *testing.T) {
					c := Cluster{Name: strings.Repeat("a", length), Region: region, Account: "111122223333"}
					other := c
					other.Name = strings.Repeat("a", max(length-1, 1)) + "b"
					c.Queue, other.Queue = QueueName(c.Name), QueueName(other.Name)
					policies := controller(t, version, c)
					names := map[string]bool{}
					for _, p := range policies {
						names[p.Name] = true
						if p.Characters > MaxCharacters || p.Characters == 0 || len(p.Name) > maxPolicyName {
							t.Errorf("%s (%d): %d characters", p.Name, len(p.Name), p.Characters)
						}
					}
					if len(names) != len(policies) {
						t.Errorf("%d names of %d policies", len(names), len(policies))
					}
					text, err := json.Marshal(policies)
					if err != nil || strings.Contains(string(text), "arn:aws:") != (partition == "aws") {
						t.Errorf("partition %s: %v in %s", partition, err, text)
					}
					for _, one := range (reference{c, version}).calls() {
						if got := Evaluate(documents(policies), one.Request); got.Decision != Allowed {
							t.Errorf("%+v: %+v", one, got)
						}
					}
					for _, one := range (reference{other, version}).calls() {
						got := Evaluate(documents(policies), one.Request)
						if want := slices.Contains(ofAnyCluster, one.sid); (got.Decision == Allowed) != want || got.Decision == Unknown {
							t.Errorf("of another cluster: %+v: %+v", one, got)
						}
					}
				})
			}
		}
	}
}

// TestControllerGrantsEveryCall: the actions are those of the clients that a version's controller has. Its tests send
// messages and metrics, and nothing calls GetRole. Before 1.12 the queue's URL is read by a client that is not in the file.
// iam:PassRole is no call.
func TestControllerGrantsEveryCall(t *testing.T) {
	services := map[string]string{
		"EC2API": "ec2", "IAMAPI": "iam", "EKSAPI": "eks", "PricingAPI": "pricing", "SSMAPI": "ssm", "SQSAPI": "sqs", "ARCZonalShiftAPI": "arc-zonal-shift",
	}
	unused := []string{"sqs:SendMessage", "iam:GetRole"}
	client := regexp.MustCompile(`(?s)type (\w+API) interface \{(.*?)\n\}`)
	method := regexp.MustCompile(`(?m)^\s+(\w+)\(`)
	for _, version := range []string{"1.3.3", "1.6.3", "1.8.6", "1.9.3", "1.12.1", "1.14.1", "1.15.0"} {
		t.Run(version, func(t *testing.T) {
			folder, err := modcache.Folder(t.Context(), "github.com/aws/karpenter-provider-aws@v"+version)
			if err != nil {
				t.Fatal(err)
			}
			text, err := fs.ReadFile(os.DirFS(folder), "pkg/aws/sdk.go")
			if err != nil {
				t.Fatal(err)
			}
			want, got := []string{"sqs:GetQueueUrl", "iam:PassRole"}, []string(nil)
			for _, api := range client.FindAllStringSubmatch(string(text), -1) {
				service, known := services[api[1]]
				for _, m := range method.FindAllStringSubmatch(api[2], -1) {
					if action := service + ":" + m[1]; known && !slices.Contains(unused, action) {
						want = append(want, action)
					}
				}
			}
			for _, d := range documents(controller(t, version, prod())) {
				for _, s := range d.Statement {
					got = append(got, s.Action...)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(slices.Compact(want), slices.Compact(got)); diff != "" {
				t.Errorf("actions (-called +allowed):\n%s", diff)
			}
		})
	}
}

// TestControllerFollowsTheTable: an action that an upgrade adds is denied before, and allowed from its version on.
func TestControllerFollowsTheTable(t *testing.T) {
	added, err := karpenter.Permissions("1.0.8", karpenter.Newest())
	if err != nil || len(added) < 5 {
		t.Fatalf("%v, %v", added, err)
	}
	grants := func(version, action string) bool {
		return slices.ContainsFunc(documents(controller(t, version, prod())), func(d Document) bool {
			return slices.ContainsFunc(d.Statement, func(s Statement) bool { return slices.Contains(s.Action, action) })
		})
	}
	for _, p := range added {
		if !grants(p.Since, p.Action) || grants("1.0.8", p.Action) {
			t.Errorf("%s, which %s adds: %v, before %v", p.Action, p.Since, grants(p.Since, p.Action), grants("1.0.8", p.Action))
		}
	}
}

func TestControllerRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		change  func(*Cluster)
		says    string
	}{
		"an old version":     {"0.37.7", func(*Cluster) {}, "knows the permissions of Karpenter 1.0.0 to"},
		"a newer version":    {"99.0.0", func(*Cluster) {}, "knows the permissions of Karpenter 1.0.0 to"},
		"no version":         {"newest", func(*Cluster) {}, `version of karpenter is "newest"`},
		"no cluster":         {"1.15.0", func(c *Cluster) { c.Name = "" }, `cluster ""`},
		"a wildcard":         {"1.15.0", func(c *Cluster) { c.Name = "*" }, `cluster "*"`},
		"no region":          {"1.15.0", func(c *Cluster) { c.Region = "europe" }, `region "europe"`},
		"no account":         {"1.15.0", func(c *Cluster) { c.Account = "" }, `account ""`},
		"another partition":  {"1.15.0", func(c *Cluster) { c.Partition = "aws-iso" }, "want one of aws, aws-cn, aws-us-gov"},
		"any role":           {"1.15.0", func(c *Cluster) { c.NodeRoles = []string{"*"} }, `node role "*"`},
		"a template":         {"1.15.0", func(c *Cluster) { c.NodeRoles = []string{"a%{if(true)}b%{endif}/role"} }, `node role "a%{if(true)}`},
		"any role of an ARN": {"1.15.0", func(c *Cluster) { c.NodeRoles = []string{"arn:aws:iam::111122223333:role/*"} }, "node role"},
		"any role of a path": {"1.15.0", func(c *Cluster) { c.NodeRoles = []string{"arn:aws:iam::111122223333:role/*/nodes"} }, "node role"},
		"a role for a shell": {"1.15.0", func(c *Cluster) { c.NodeRoles = []string{"x;curl;#/nodes"} }, "node role"},
		"a queue's URL":      {"1.15.0", func(c *Cluster) { c.Queue = "https://sqs" }, `queue "https://sqs"`},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := prod()
			c.change(&cluster)
			if got, err := Controller(c.version, cluster); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, %v; want %s", got, err, c.says)
			}
		})
	}
}

func TestName(t *testing.T) {
	long := strings.Repeat("a", 100)
	for _, c := range []struct{ prefix, cluster, want string }{
		{"KarpenterNodeRole-", "prod", "KarpenterNodeRole-prod"},
		{"KarpenterNodeRole-", strings.Repeat("a", 46), "KarpenterNodeRole-" + strings.Repeat("a", 46)},
		{"KarpenterNodeRole-", long, "KarpenterNodeRole-" + strings.Repeat("a", 35) + "-2816597888"},
	} {
		if got := Name(c.prefix, c.cluster, maxRoleName); got != c.want || len(got) > maxRoleName {
			t.Errorf("%s (%d), want %s", got, len(got), c.want)
		}
	}
	if Name("KarpenterNodeRole-", long+"b", maxRoleName) == Name("KarpenterNodeRole-", long+"c", maxRoleName) {
		t.Error("two clusters have one name")
	}
}

// TestPackSplitsALargeSubject: a subject that is too large for one policy has several, and no statement is lost.
func TestPackSplitsALargeSubject(t *testing.T) {
	var s []Statement
	for i := range 30 {
		s = append(s, allow(fmt.Sprintf("S%d", i), Values{"ec2:RunInstances"}, Values{strings.Repeat("x", 500)}, nil))
	}
	var sids []string
	for i, p := range pack("P", "test", prod(), []subject{{"Big", "big", s}}) {
		if want := []string{"PBigPolicy-prod", "PBigPolicy2-prod", "PBigPolicy3-prod"}[i]; p.Name != want || p.Characters > MaxCharacters {
			t.Errorf("%s: %d characters, want %s", p.Name, p.Characters, want)
		}
		for _, one := range p.Document.Statement {
			sids = append(sids, one.Sid)
		}
	}
	if len(sids) != 30 || sids[29] != "S29" {
		t.Errorf("statements %v", sids)
	}
}

func TestNodeRolesByNameAndARN(t *testing.T) {
	c := prod()
	c.NodeRoles = []string{"nodes", "arn:aws:iam::111122223333:role/path/gpu"}
	want := Values{"arn:aws:iam::111122223333:role/nodes", "arn:aws:iam::111122223333:role/path/gpu"}
	if diff := cmp.Diff(want, c.nodeRoles()); diff != "" {
		t.Error(diff)
	}
	if got := controller(t, "1.15.0", c); Evaluate(documents(got), Request{
		Action: "iam:PassRole", Resource: want[0], Keys: map[string]string{"iam:PassedToService": "ec2.amazonaws.com"},
	}).Decision != Allowed {
		t.Error("the role cannot be passed")
	}
}

// TestSizeDoesNotCountSpace: as in IAM's quota. An account that is filled in later counts with its 12 digits.
func TestSizeDoesNotCountSpace(t *testing.T) {
	text := `{"Statement":[{"Effect":"Allow","Action":"a:b","Resource":"arn:aws:iam::111122223333:x"}]}`
	d := parsed(t, text)
	if got := sizeOf(d); got != len(text) {
		t.Errorf("%d characters, want %d", got, len(text))
	}
	for _, account := range []string{accountOfStack, accountOfProvider, "1111 2222 3333"} {
		d.Statement[0].Resource = Values{strings.ReplaceAll("arn:aws:iam::ACCOUNT:x", "ACCOUNT", account)}
		if got := sizeOf(d); got != len(text) {
			t.Errorf("with %s %d characters, want %d", account, got, len(text))
		}
	}
}
