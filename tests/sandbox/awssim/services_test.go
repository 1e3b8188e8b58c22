package awssim_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

func TestUnknownActionsFail(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	_, err := a.ec2().DescribeKeyPairs(t.Context(), &ec2.DescribeKeyPairsInput{})
	wantCode(t, err, "InvalidAction")
	_, err = a.iam().ListUsers(t.Context(), &iam.ListUsersInput{})
	wantCode(t, err, "InvalidAction")
	_, err = ssm.NewFromConfig(a.config("tester")).ListDocuments(t.Context(), &ssm.ListDocumentsInput{})
	wantCode(t, err, "UnknownOperationException")
	_, err = eks.NewFromConfig(a.config("tester")).ListIdentityProviderConfigs(t.Context(), &eks.ListIdentityProviderConfigsInput{ClusterName: aws.String(clusterName)})
	wantCode(t, err, "UnknownOperationException")

	var got []string
	for _, c := range a.Calls("", "") {
		got = append(got, c.Service+" "+c.Action+" "+c.Code)
	}
	want := []string{
		"ec2 DescribeKeyPairs InvalidAction", "iam ListUsers InvalidAction",
		"ssm ListDocuments UnknownOperationException", "eks GET /clusters/prod/identity-provider-configs UnknownOperationException",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestWrongRegionAndMissingSignature(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	config := a.config("tester")
	config.Region = "us-east-1"
	_, err := ec2.NewFromConfig(config).DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
	wantCode(t, err, "SignatureDoesNotMatch")
	_, err = iam.NewFromConfig(config).ListRoles(t.Context(), &iam.ListRolesInput{})
	noError(t, err) // IAM is global

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url, strings.NewReader("Action=DescribeVpcs"))
	noError(t, err)
	resp, err := http.DefaultClient.Do(r)
	noError(t, err)
	noError(t, resp.Body.Close())
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("an unsigned request is answered with %d, want 403", resp.StatusCode)
	}
}

func TestDescribeCluster(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	client := eks.NewFromConfig(a.config("tester"))
	out, err := client.DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String(clusterName)})
	noError(t, err)
	c := out.Cluster
	got := []string{*c.Endpoint, *c.CertificateAuthority.Data, *c.Version, *c.KubernetesNetworkConfig.ServiceIpv4Cidr, string(c.Status)}
	if diff := cmp.Diff([]string{"https://127.0.0.1:6443", "Y2E=", "1.36", "10.100.0.0/16", "ACTIVE"}, got); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	if c.CreatedAt == nil || c.Identity.Oidc.Issuer == nil || c.AccessConfig == nil || len(c.ResourcesVpcConfig.SubnetIds) != 3 {
		t.Errorf("cluster lacks its time, issuer, access configuration or subnets: %+v", c)
	}
	_, err = client.DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String("staging")})
	wantCode(t, err, "ResourceNotFoundException")
	if err := a.AddCluster(awssim.Cluster{Name: clusterName}); err == nil {
		t.Error("a second cluster of that name was accepted")
	}
}

func TestAccessEntries(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	client := eks.NewFromConfig(a.config("tester"))
	list, err := client.ListAccessEntries(t.Context(), &eks.ListAccessEntriesInput{ClusterName: aws.String(clusterName)})
	noError(t, err)
	want := []string{"arn:aws:iam::000000000000:role/KarpenterNodeRole-prod"}
	if diff := cmp.Diff(want, list.AccessEntries); diff != "" {
		t.Fatalf("access entries (-want +got):\n%s", diff)
	}
	entry, err := client.DescribeAccessEntry(t.Context(), &eks.DescribeAccessEntryInput{ClusterName: aws.String(clusterName), PrincipalArn: aws.String(want[0])})
	noError(t, err)
	if got := aws.ToString(entry.AccessEntry.Type); got != "EC2_LINUX" {
		t.Errorf("type = %s, want EC2_LINUX", got)
	}
}

func TestImageParameters(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	client := ssm.NewFromConfig(a.config("tester"))
	for _, name := range []string{
		"/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id",
		"/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/arm64/standard/recommended/image_id",
		"/aws/service/eks/optimized-ami/1.37/amazon-linux-2023/x86_64/standard/recommended/image_id",
		"/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.36-v20250904/image_id",
		"/aws/service/bottlerocket/aws-k8s-1.36/arm64/latest/image_id",
		"/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.36/image_id",
		"/aws/service/bottlerocket/aws-k8s-1.36-nvidia/x86_64/1.46.0/image_id",
	} {
		out, err := client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String(name)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		images, err := a.ec2().DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{*out.Parameter.Value}})
		arch := ec2types.ArchitectureValuesX8664
		if strings.Contains(name, "arm64") {
			arch = ec2types.ArchitectureValuesArm64
		}
		if err != nil || images.Images[0].Architecture != arch {
			t.Errorf("%s names %s: %v (%v)", name, *out.Parameter.Value, images, err)
		}
	}
	_, err := client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/neuron/recommended/image_id")})
	wantCode(t, err, "ParameterNotFound")
}

func TestParametersAreClaimedOnce(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	client := ssm.NewFromConfig(a.config("tester"))
	put := func(value string) error {
		_, err := client.PutParameter(t.Context(), &ssm.PutParameterInput{Name: aws.String("/plumbline/claim/prod"), Value: aws.String(value), Type: "String"})
		return err
	}
	noError(t, put("one"))
	wantCode(t, put("two"), "ParameterAlreadyExists")
	out, err := client.GetParametersByPath(t.Context(), &ssm.GetParametersByPathInput{Path: aws.String("/plumbline"), Recursive: aws.Bool(true)})
	noError(t, err)
	if len(out.Parameters) != 1 || *out.Parameters[0].Value != "one" {
		t.Errorf("parameters = %v, want the first value", out.Parameters)
	}
}

func TestPrices(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	config := a.config("tester")
	config.Region = "us-east-1" // the region of the Pricing API
	client := pricing.NewFromConfig(config)
	prices := func(tenancy, family string) []string {
		t.Helper()
		out, err := client.GetProducts(t.Context(), &pricing.GetProductsInput{
			ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(100),
			Filters: []pricingtypes.Filter{
				{Field: aws.String("regionCode"), Type: "TERM_MATCH", Value: aws.String(region)},
				{Field: aws.String("tenancy"), Type: "TERM_MATCH", Value: aws.String(tenancy)},
				{Field: aws.String("productFamily"), Type: "TERM_MATCH", Value: aws.String(family)},
			},
		})
		noError(t, err)
		return out.PriceList
	}
	if metal := prices("Dedicated", "Compute Instance (bare metal)"); len(metal) != 1 || !strings.Contains(metal[0], "m5.metal") {
		t.Errorf("bare metal = %v, want m5.metal", metal)
	}
	for _, item := range prices("Shared", "Compute Instance") {
		var price struct {
			Product struct{ Attributes struct{ InstanceType string } }
			Terms   struct {
				OnDemand map[string]struct {
					PriceDimensions map[string]struct{ PricePerUnit map[string]string }
				}
			}
		}
		noError(t, json.Unmarshal([]byte(item), &price))
		if price.Product.Attributes.InstanceType != "m5.large" {
			continue
		}
		for _, term := range price.Terms.OnDemand {
			for _, d := range term.PriceDimensions {
				if !strings.HasPrefix(d.PricePerUnit["USD"], "0.096") {
					t.Errorf("m5.large costs %v, want 0.096", d.PricePerUnit)
				}
			}
		}
		return
	}
	t.Error("m5.large has no price")
}

func TestQueue(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	client := sqs.NewFromConfig(a.config("tester"))
	_, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("nothing")})
	if got := code(err); !strings.Contains(got, "QueueDoesNotExist") {
		t.Errorf("error code = %q, want QueueDoesNotExist", got)
	}
	queue, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(clusterName)})
	noError(t, err)

	type received struct {
		out *sqs.ReceiveMessageOutput
		err error
	}
	// A delay of nothing reports when the call has arrived, so that it waits for the message.
	a.fault(t, awssim.Fault{Action: "ReceiveMessage", Kind: awssim.Delay, Duration: 1})
	waiting := make(chan received, 1)
	go func() {
		out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: queue.QueueUrl, WaitTimeSeconds: 20})
		waiting <- received{out, err}
	}()
	eventually(t, "the call's arrival", func() bool { return a.Faults()[0].Hits == 1 })
	noError(t, a.Notify(clusterName, "spot interruption"))
	var first received
	select {
	case first = <-waiting:
	case <-time.After(10 * time.Second):
		t.Fatal("whoever waits for a message was not woken by one")
	}
	noError(t, first.err)
	if len(first.out.Messages) != 1 || *first.out.Messages[0].Body != "spot interruption" {
		t.Fatalf("messages = %v", first.out.Messages)
	}
	again, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: queue.QueueUrl})
	noError(t, err)
	if len(again.Messages) != 0 {
		t.Error("a message that someone works on was given out again")
	}
	a.clock.advance(31 * time.Second)
	again, err = client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: queue.QueueUrl})
	noError(t, err)
	if len(again.Messages) != 1 {
		t.Fatal("a message that was not deleted in time is not given out again")
	}
	_, err = client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: queue.QueueUrl, ReceiptHandle: again.Messages[0].ReceiptHandle})
	noError(t, err)
	if n := a.State().Queues[clusterName]; n != 0 {
		t.Errorf("%d messages are left, want none", n)
	}
}

// TestRules uses EventBridge's protocol directly: nothing else here needs its SDK.
func TestRules(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	call := func(action, body string, wantStatus int) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url, strings.NewReader(body))
		noError(t, err)
		r.Header.Set("X-Amz-Target", "AWSEvents."+action)
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=tester/20260501/eu-west-1/events/aws4_request, SignedHeaders=host, Signature=0")
		resp, err := http.DefaultClient.Do(r)
		noError(t, err)
		content, err := io.ReadAll(resp.Body)
		noError(t, err)
		noError(t, resp.Body.Close())
		if resp.StatusCode != wantStatus {
			t.Fatalf("%s: status %d, want %d: %s", action, resp.StatusCode, wantStatus, content)
		}
		return string(content)
	}
	call("PutRule", `{"Name":"prod-spot","EventPattern":"{}"}`, http.StatusOK)
	call("PutTargets", `{"Rule":"prod-spot","Targets":[{"Id":"queue","Arn":"arn:aws:sqs:eu-west-1:000000000000:prod"}]}`, http.StatusOK)
	if got := call("ListRules", `{"NamePrefix":"prod"}`, http.StatusOK); !strings.Contains(got, "rule/prod-spot") {
		t.Errorf("rules = %s, want prod-spot", got)
	}
	if got := call("ListTargetsByRule", `{"Rule":"prod-spot"}`, http.StatusOK); !strings.Contains(got, "000000000000:prod") {
		t.Errorf("targets = %s, want the queue", got)
	}
	if got := call("ListRuleNamesByTarget", `{"TargetArn":"arn:aws:sqs:eu-west-1:000000000000:prod"}`, http.StatusOK); !strings.Contains(got, "prod-spot") {
		t.Errorf("rules of the queue = %s, want prod-spot", got)
	}
	if got := call("DeleteRule", `{"Name":"prod-spot"}`, http.StatusBadRequest); !strings.Contains(got, "ValidationException") {
		t.Errorf("deleting a rule with targets: %s", got)
	}
	call("RemoveTargets", `{"Rule":"prod-spot","Ids":["queue"]}`, http.StatusOK)
	call("DeleteRule", `{"Name":"prod-spot"}`, http.StatusOK)
	if got := call("DescribeRule", `{"Name":"prod-spot"}`, http.StatusBadRequest); !strings.Contains(got, "ResourceNotFoundException") {
		t.Errorf("describing a rule that is gone: %s", got)
	}
}
