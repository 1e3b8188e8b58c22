package cloud

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
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
	case r.URL.Path == "/clusters" && r.URL.Query().Get("nextToken") == "":
		fmt.Fprint(w, `{"clusters":["prod"],"nextToken":"2"}`)
	case r.URL.Path == "/clusters":
		fmt.Fprint(w, `{"clusters":["dev"]}`)
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
	if diff := cmp.Diff([]Addon{{Name: "coredns", Version: "v1", Status: "DEGRADED", Issues: []string{"InsufficientNumberOfReplicas: none runs"}}}, addons); diff != "" || err != nil {
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
		_, target, blackhole := defaultRoute(tables, Subnet{ID: id, VPC: "vpc-1"})
		if got := fmt.Sprintf("%s %t", target, blackhole); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	if _, target, _ := defaultRoute(tables, Subnet{ID: "subnet-1", VPC: "vpc-2"}); target != "" {
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

// TestClusters: all pages are read, and the names are sorted.
func TestClusters(t *testing.T) {
	got, err := connect(t, services{}, Options{Attempts: 1}).Clusters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"dev", "prod"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// doctorAccount answers what only `plumbline doctor` queries: Service Quotas and KMS in JSON, EKS insights, and EC2 in XML. Each
// list has two pages.
type doctorAccount struct{ refused string }

func (a doctorAccount) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target := r.Header.Get("X-Amz-Target")
	if action := target[strings.LastIndex(target, ".")+1:]; action != "" {
		a.json(w, r, action)
		return
	}
	body, _ := io.ReadAll(r.Body)
	if strings.HasSuffix(r.URL.Path, "/insights") {
		if strings.Contains(string(body), `"nextToken":"2"`) {
			fmt.Fprint(w, `{"insights":[{"id":"b","name":"Add-on","category":"MISCONFIGURATION","insightStatus":{"status":"PASSING","reason":"fine"}}]}`)
			return
		}
		fmt.Fprint(w, `{"insights":[{"id":"a","name":"Skew","category":"UPGRADE_READINESS","kubernetesVersion":"1.37","insightStatus":{"status":"ERROR","reason":"2 nodes"}}],"nextToken":"2"}`)
		return
	}
	form, _ := url.ParseQuery(string(body))
	switch {
	case form.Get("Action") == a.refused:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>no</Message></Error></Errors></Response>`)
	case form.Get("Action") == "DescribeVpcEndpoints" && form.Get("Filter.1.Value.1") == "vpc-1":
		fmt.Fprint(w, `<DescribeVpcEndpointsResponse><vpcEndpointSet><item><vpcEndpointId>vpce-1</vpcEndpointId><vpcId>vpc-1</vpcId>`+
			`<serviceName>com.amazonaws.eu-west-1.s3</serviceName><vpcEndpointType>Gateway</vpcEndpointType><state>available</state>`+
			`<routeTableIdSet><item>rtb-1</item></routeTableIdSet><privateDnsEnabled>false</privateDnsEnabled></item>`+
			`<item><vpcEndpointId>vpce-2</vpcEndpointId><vpcId>vpc-1</vpcId><serviceName>com.amazonaws.eu-west-1.ec2</serviceName>`+
			`<vpcEndpointType>Interface</vpcEndpointType><state>available</state><groupSet><item><groupId>sg-1</groupId></item></groupSet>`+
			`<privateDnsEnabled>true</privateDnsEnabled></item></vpcEndpointSet></DescribeVpcEndpointsResponse>`)
	case form.Get("Action") == "DescribeInstances" && form.Get("NextToken") == "":
		fmt.Fprint(w, `<DescribeInstancesResponse><reservationSet><item><instancesSet>`+
			`<item><instanceType>m6i.large</instanceType></item><item><instanceType>m6i.large</instanceType><instanceLifecycle>spot</instanceLifecycle></item>`+
			`<item><instanceType>m6i.large</instanceType><placement><tenancy>host</tenancy></placement></item>`+
			`</instancesSet></item></reservationSet><nextToken>2</nextToken></DescribeInstancesResponse>`)
	case form.Get("Action") == "DescribeInstances":
		fmt.Fprint(w, `<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceType>m6i.large</instanceType></item></instancesSet></item></reservationSet></DescribeInstancesResponse>`)
	}
}

func (a doctorAccount) json(w http.ResponseWriter, r *http.Request, action string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	body, _ := io.ReadAll(r.Body)
	fail := func(code string) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"__type":%q,"message":"User: x is not authorized, or it does not exist"}`, code)
	}
	switch {
	case action == a.refused:
		fail("AccessDeniedException")
	case strings.Contains(string(body), "alias/gone"):
		fail("NotFoundException")
	case action == "DescribeKey":
		fmt.Fprint(w, `{"KeyMetadata":{"KeyId":"k","Arn":"arn:key","KeyManager":"CUSTOMER","KeyState":"Enabled"}}`)
	case action == "GetKeyPolicy" && strings.Contains(string(body), `"arn:key"`):
		fmt.Fprint(w, `{"Policy":"{}"}`)
	case action == "Decrypt" && strings.Contains(string(body), `"team":"a"`):
		fmt.Fprint(w, `{"KeyId":"arn:key","Plaintext":"b3Blbg=="}`)
	case action == "ListServiceQuotas" && strings.Contains(string(body), `"NextToken":"2"`):
		fmt.Fprint(w, `{"Quotas":[{"QuotaCode":"L-34B43A08","QuotaName":"Spot","Value":32}]}`)
	case action == "ListServiceQuotas" && strings.Contains(string(body), `"ServiceCode":"ec2"`):
		fmt.Fprint(w, `{"Quotas":[{"QuotaCode":"L-1216C47A","QuotaName":"On demand","Value":64}],"NextToken":"2"}`)
	}
}

func TestDoctorReads(t *testing.T) {
	client := connect(t, doctorAccount{}, Options{Attempts: 1})
	quotas, err := client.Quotas(t.Context())
	if diff := cmp.Diff(map[string]Quota{"L-1216C47A": {"L-1216C47A", "On demand", 64}, "L-34B43A08": {"L-34B43A08", "Spot", 32}}, quotas); diff != "" || err != nil {
		t.Errorf("quotas (-want +got), error %v:\n%s", err, diff)
	}
	used, err := client.TypesInUse(t.Context())
	if diff := cmp.Diff(map[TypeInUse]int{{Type: "m6i.large"}: 2, {Type: "m6i.large", Spot: true}: 1}, used); diff != "" || err != nil {
		t.Errorf("types (-want +got), error %v:\n%s", err, diff)
	}
	key, err := client.Key(t.Context(), "alias/queue")
	if diff := cmp.Diff(Key{ARN: "arn:key", State: "Enabled", Policy: "{}"}, key); diff != "" || err != nil {
		t.Errorf("key (-want +got), error %v:\n%s", err, diff)
	}
	plain, err := client.Decrypt(t.Context(), "arn:key", []byte("sealed"), map[string]string{"team": "a"})
	if err != nil || string(plain) != "open" {
		t.Errorf("decrypted %q, error %v", plain, err)
	}
	var missing *NotFoundError
	if _, err := client.Key(t.Context(), "alias/gone"); !errors.As(err, &missing) {
		t.Errorf("a key that does not exist: %v", err)
	}
	insights, err := client.Insights(t.Context(), "prod")
	want := []Insight{
		{ID: "a", Name: "Skew", Category: "UPGRADE_READINESS", Status: "ERROR", Reason: "2 nodes", Kubernetes: "1.37"},
		{ID: "b", Name: "Add-on", Category: "MISCONFIGURATION", Status: "PASSING", Reason: "fine"},
	}
	if diff := cmp.Diff(want, insights); diff != "" || err != nil {
		t.Errorf("insights (-want +got), error %v:\n%s", err, diff)
	}
	endpoints, err := client.Endpoints(t.Context(), []string{"vpc-1"})
	s3 := Endpoint{ID: "vpce-1", VPC: "vpc-1", Service: "com.amazonaws.eu-west-1.s3", Gateway: true, RouteTables: []string{"rtb-1"}, Available: true}
	own := Endpoint{ID: "vpce-2", VPC: "vpc-1", Service: "com.amazonaws.eu-west-1.ec2", PrivateDNS: true, Groups: []string{"sg-1"}, Available: true}
	if diff := cmp.Diff([]Endpoint{s3, own}, endpoints); diff != "" || err != nil {
		t.Errorf("endpoints (-want +got), error %v:\n%s", err, diff)
	}
}

func TestDoctorIsRefused(t *testing.T) {
	for action, query := range map[string]func(*Client) error{
		"servicequotas:ListServiceQuotas": func(c *Client) error { _, err := c.Quotas(t.Context()); return err },
		"ec2:DescribeInstances":           func(c *Client) error { _, err := c.TypesInUse(t.Context()); return err },
		"kms:DescribeKey":                 func(c *Client) error { _, err := c.Key(t.Context(), "k"); return err },
		"kms:Decrypt": func(c *Client) error {
			_, err := c.Decrypt(t.Context(), "arn:key", []byte("sealed"), nil)
			return err
		},
		"kms:GetKeyPolicy":         func(c *Client) error { _, err := c.Key(t.Context(), "k"); return err },
		"ec2:DescribeVpcEndpoints": func(c *Client) error { _, err := c.Endpoints(t.Context(), []string{"vpc-1"}); return err },
	} {
		_, refused, _ := strings.Cut(action, ":")
		var denied *DeniedError
		if err := query(connect(t, doctorAccount{refused}, Options{Attempts: 1})); !errors.As(err, &denied) || denied.Action != action {
			t.Errorf("%s: %v", action, err)
		}
	}
}

func TestQuotaOf(t *testing.T) {
	for name, want := range map[string][2]string{
		"m6i.large": {"L-1216C47A", "L-34B43A08"}, "im4gn.large": {"L-1216C47A", "L-34B43A08"}, "t4g.nano": {"L-1216C47A", "L-34B43A08"},
		"g5.xlarge": {"L-DB2E81BA", "L-3819A6DF"}, "gr6.4xlarge": {"L-DB2E81BA", "L-3819A6DF"}, "vt1.3xlarge": {"L-DB2E81BA", "L-3819A6DF"},
		"p4d.24xlarge": {"L-417A185B", "L-7212CCBC"}, "p5.48xlarge": {"L-417A185B", ""}, "f1.2xlarge": {"L-74FC7D96", "L-88CF9481"},
		"x2gd.medium": {"L-7295265B", "L-E3A00192"}, "inf2.xlarge": {"L-1945791B", "L-B5D1601B"}, "trn1.2xlarge": {"L-2C3B7624", "L-6B0D517C"},
		"dl1.24xlarge": {"L-6E869C2A", "L-85EED4F7"}, "hpc7a.96xlarge": {"L-F7808C92", ""}, "u-6tb1.56xlarge": {"L-43DA4232", ""},
		"mac2.metal": {"", ""}, "y1.large": {"", ""}, "": {"", ""},
	} {
		if got := [2]string{QuotaOf(TypeInUse{Type: name}), QuotaOf(TypeInUse{Type: name, Spot: true})}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
