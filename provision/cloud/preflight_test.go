package cloud

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

// services answers what `plumbline doctor` queries of EKS, SQS and EventBridge, in JSON, and of STS, in XML.
type services struct{ refused string }

func (s services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	target := r.Header.Get("X-Amz-Target")
	action := target[strings.LastIndex(target, ".")+1:]
	switch {
	case action != "" && action == s.refused:
		w.Header().Set("X-Amzn-ErrorType", "AccessDeniedException")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"__type":"AccessDeniedException","message":"User: x is not authorized to perform it"}`)
	case strings.HasSuffix(r.URL.Path, "/addons"):
		fmt.Fprint(w, `{"addons":["coredns","gone"]}`)
	case strings.HasSuffix(r.URL.Path, "/addons/coredns"):
		fmt.Fprint(w, `{"addon":{"addonName":"coredns","addonVersion":"v1","status":"DEGRADED","health":{"issues":[{"code":"InsufficientNumberOfReplicas","message":"none runs"}]}}}`)
	case strings.Contains(r.URL.Path, "/addons/"), strings.HasSuffix(r.URL.Path, "/stranger"):
		w.Header().Set("X-Amzn-ErrorType", "ResourceNotFoundException")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"message":"not found"}`)
	case strings.Contains(r.URL.Path, "/access-entries/"):
		fmt.Fprint(w, `{"accessEntry":{"principalArn":"arn:nodes","type":"EC2_LINUX"}}`)
	case action == "GetQueueUrl":
		fmt.Fprint(w, `{"QueueUrl":"https://sqs.example.com/1/prod"}`)
	case action == "GetQueueAttributes":
		fmt.Fprint(w, `{"Attributes":{"QueueArn":"arn:queue","Policy":"{}","KmsMasterKeyId":"alias/aws/sqs"}}`)
	case action == "ListRuleNamesByTarget":
		fmt.Fprint(w, `{"RuleNames":["spot","health"]}`)
	case action == "DescribeRule":
		fmt.Fprint(w, `{"Arn":"arn:rule","EventPattern":"{}","State":"DISABLED"}`)
	default:
		fmt.Fprint(w, `<DecodeAuthorizationMessageResponse><DecodeAuthorizationMessageResult><DecodedMessage>{"allowed":false,"explicitDeny":true,`+
			`"context":{"principal":{"id":"x","arn":"arn:role"},"action":"ec2:RunInstances","resource":"arn:volume"}}</DecodedMessage>`+
			`</DecodeAuthorizationMessageResult></DecodeAuthorizationMessageResponse>`)
	}
}

func TestPreflight(t *testing.T) {
	client := connect(t, services{}, Options{Attempts: 1})
	addons, err := client.Addons(t.Context(), "prod")
	if diff := cmp.Diff([]Addon{{"coredns", "v1", "DEGRADED", []string{"InsufficientNumberOfReplicas: none runs"}}}, addons); diff != "" || err != nil {
		t.Errorf("add-ons (-want +got), error %v:\n%s", err, diff)
	}
	entry, err := client.AccessEntry(t.Context(), "prod", "nodes")
	if diff := cmp.Diff(&AccessEntry{RoleARN: "arn:nodes", Type: "EC2_LINUX"}, entry); diff != "" || err != nil {
		t.Errorf("access entry (-want +got), error %v:\n%s", err, diff)
	}
	if entry, err := client.AccessEntry(t.Context(), "prod", "stranger"); entry != nil || err != nil {
		t.Errorf("no access entry: %+v, error %v", entry, err)
	}
	queue, err := client.Queue(t.Context(), "prod")
	if diff := cmp.Diff(Queue{Name: "prod", ARN: "arn:queue", Policy: "{}", Key: "alias/aws/sqs"}, queue); diff != "" || err != nil {
		t.Errorf("queue (-want +got), error %v:\n%s", err, diff)
	}
	rules, err := client.Rules(t.Context(), "arn:queue")
	want := []Rule{{Name: "spot", ARN: "arn:rule", Pattern: "{}"}, {Name: "health", ARN: "arn:rule", Pattern: "{}"}}
	if diff := cmp.Diff(want, rules); diff != "" || err != nil {
		t.Errorf("rules (-want +got), error %v:\n%s", err, diff)
	}
	refusal, err := client.Refused(t.Context(), "not authorized. Encoded authorization failure message: abcdefghijklmnopqrstuvwxyz_0123")
	if diff := cmp.Diff(&Refusal{Action: "ec2:RunInstances", Resource: "arn:volume", Principal: "arn:role", Explicit: true}, refusal); diff != "" || err != nil {
		t.Errorf("refusal (-want +got), error %v:\n%s", err, diff)
	}
	if refusal, err := client.Refused(t.Context(), "not authorized"); refusal != nil || err != nil {
		t.Errorf("nothing to decode: %+v, error %v", refusal, err)
	}
	var denied *DeniedError
	if _, err := connect(t, services{refused: "DescribeRule"}, Options{Attempts: 1}).Rules(t.Context(), "arn:queue"); !errors.As(err, &denied) || denied.Action != "events:DescribeRule" {
		t.Errorf("a denied call: %v", err)
	}
}

func TestNodeRole(t *testing.T) {
	client := connect(t, &roles{}, Options{Attempts: 1})
	got, err := client.NodeRole(t.Context(), "karpenter")
	want := Role{
		ARN: controllerID, Tags: map[string]string{"team": "nodes"}, Trust: trustText, Boundary: &RolePolicy{Name: "limit", ARN: "arn:aws:iam::111122223333:policy/limit", Text: attachedText},
		Policies: []RolePolicy{{Name: "own"}, {Name: "prices", ARN: "arn:aws:iam::111122223333:policy/prices"}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("(-want +got), error %v:\n%s", err, diff)
	}
	var missing *NotFoundError
	if _, err := client.NodeRole(t.Context(), "gone"); !errors.As(err, &missing) {
		t.Errorf("a role that does not exist: %v", err)
	}
}

func TestDefaultRoute(t *testing.T) {
	route := func(r ec2types.Route) []ec2types.Route {
		r.DestinationCidrBlock = aws.String("0.0.0.0/0")
		return []ec2types.Route{{DestinationCidrBlock: aws.String("10.0.0.0/16"), GatewayId: aws.String("local")}, r}
	}
	tables := []ec2types.RouteTable{
		{VpcId: aws.String("vpc-1"), Associations: []ec2types.RouteTableAssociation{{Main: aws.Bool(true)}}, Routes: route(ec2types.Route{NatGatewayId: aws.String("nat-1")})},
		{VpcId: aws.String("vpc-1"), Associations: []ec2types.RouteTableAssociation{{SubnetId: aws.String("subnet-2")}}, Routes: route(ec2types.Route{
			GatewayId: aws.String("igw-1"), State: ec2types.RouteStateBlackhole,
		})},
		{VpcId: aws.String("vpc-1"), Associations: []ec2types.RouteTableAssociation{{SubnetId: aws.String("subnet-3")}}},
	}
	for id, want := range map[string]string{"subnet-1": "nat-1 false", "subnet-2": "igw-1 true", "subnet-3": " false"} {
		target, blackhole := defaultRoute(tables, Subnet{ID: id, VPC: "vpc-1"})
		if got := fmt.Sprintf("%s %t", target, blackhole); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	if target, _ := defaultRoute(tables, Subnet{ID: "subnet-1", VPC: "vpc-2"}); target != "" {
		t.Errorf("in another VPC: %q", target)
	}
}

func TestGroupRules(t *testing.T) {
	rules := groupRules([]ec2types.IpPermission{{
		IpProtocol: aws.String("tcp"), FromPort: aws.Int32(440), ToPort: aws.Int32(450),
		UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: aws.String("sg-1")}},
		IpRanges:         []ec2types.IpRange{{CidrIp: aws.String("10.0.0.0/8")}}, PrefixListIds: []ec2types.PrefixListId{{PrefixListId: aws.String("pl-1")}},
	}})
	want := []GroupRule{{Protocol: "tcp", From: 440, To: 450, Groups: []string{"sg-1"}, CIDRs: []string{"10.0.0.0/8"}, PrefixLists: []string{"pl-1"}}}
	if diff := cmp.Diff(want, rules); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !rules[0].Allows(443) || rules[0].Allows(22) || !(GroupRule{Protocol: "-1"}).Allows(22) || (GroupRule{Protocol: "udp", To: 65535}).Allows(443) {
		t.Error("it does not allow what it should")
	}
}

func TestOwnedBy(t *testing.T) {
	for _, c := range []struct {
		tags map[string]string
		want string
	}{
		{map[string]string{"kubernetes.io/cluster/prod": "owned"}, ""},
		{map[string]string{"kubernetes.io/cluster/prod": "owned", "kubernetes.io/cluster/other": "shared"}, ""},
		{map[string]string{"kubernetes.io/cluster/other": "owned"}, "other"},
		{map[string]string{"aws:eks:cluster-name": "other"}, "other"},
		{map[string]string{"aws:eks:cluster-name": "prod"}, ""},
	} {
		if got := OwnedBy(c.tags, "prod"); got != c.want {
			t.Errorf("%v: %q, want %q", c.tags, got, c.want)
		}
	}
}
