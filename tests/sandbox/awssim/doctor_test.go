package awssim_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// ask calls a service with a JSON protocol as an access key, and returns the response.
func (a *account) ask(t *testing.T, accessKey, service, action, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.url, strings.NewReader(body))
	noError(t, err)
	r.Header.Set("X-Amz-Target", "Service."+action)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+accessKey+"/20260501/"+region+"/"+service+"/aws4_request, SignedHeaders=host, Signature=0")
	response, err := http.DefaultClient.Do(r)
	noError(t, err)
	content, err := io.ReadAll(response.Body)
	noError(t, err)
	noError(t, response.Body.Close())
	return string(content)
}

// TestDoctorsPolicy checks quotas, keys, insights and endpoints, with the policy of a user of `plumbline doctor` and without.
func TestDoctorsPolicy(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "manifests", "iam-policy-doctor.json"))
	noError(t, err)
	filled := strings.NewReplacer("${PARTITION}", "aws", "${REGION}", region, "${ACCOUNT}", "000000000000", "${CLUSTER_NAME}", clusterName).Replace(string(text))
	a.as(t, "doctor", filled)
	a.as(t, "other", `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}`)
	noError(t, a.SetQueueKey(clusterName, `{"Statement": []}`))
	queue := a.ask(t, "doctor", "sqs", "GetQueueAttributes", `{"QueueUrl":"http://x/000000000000/prod"}`)
	_, key, found := strings.Cut(queue, `"KmsMasterKeyId":"`)
	key, _, _ = strings.Cut(key, `"`)
	if !found || key == "" {
		t.Fatalf("the queue has no key: %s", queue)
	}
	a.SetQuota("L-1216C47A", 8)
	for _, one := range []struct{ service, action, body, want string }{
		{"servicequotas", "ListServiceQuotas", `{"ServiceCode":"ec2"}`, `"QuotaCode":"L-1216C47A","QuotaName":"Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances","Value":8`},
		{"kms", "DescribeKey", `{"KeyId":"` + key + `"}`, `"KeyManager":"CUSTOMER"`},
		{"kms", "GetKeyPolicy", `{"KeyId":"arn:aws:kms:eu-west-1:000000000000:key/` + key + `"}`, `Statement`},
	} {
		if got := a.ask(t, "doctor", one.service, one.action, one.body); !strings.Contains(got, one.want) {
			t.Errorf("%s: %s, want %s", one.action, got, one.want)
		}
		if got := a.ask(t, "other", one.service, one.action, one.body); !strings.Contains(got, "AccessDeniedException") {
			t.Errorf("%s is not denied: %s", one.action, got)
		}
	}
	a.SetQuota("L-1216C47A", -1)
	noError(t, a.SetQueueKey(clusterName, ""))
	if got := a.ask(t, "doctor", "sqs", "GetQueueAttributes", `{"QueueUrl":"http://x/000000000000/prod"}`); strings.Contains(got, "KmsMasterKeyId") {
		t.Errorf("the queue still has a key: %s", got)
	}

	insight := func(accessKey string) (string, error) {
		out, err := eks.NewFromConfig(a.config(accessKey)).ListInsights(t.Context(), &eks.ListInsightsInput{ClusterName: aws.String(clusterName)})
		if err != nil {
			return "", err
		}
		return string(out.Insights[0].InsightStatus.Status), nil
	}
	noError(t, a.SetInsight(clusterName, "ERROR"))
	if status, err := insight("doctor"); status != "ERROR" || err != nil {
		t.Errorf("the insight is %s, error %v", status, err)
	}
	_, err = insight("other")
	wantCode(t, err, "AccessDeniedException")

	noError(t, a.SetRoute(clusterName, false))
	tables, err := a.ec2().DescribeRouteTables(t.Context(), &ec2.DescribeRouteTablesInput{})
	noError(t, err)
	if n := len(tables.RouteTables[0].Routes); n != 1 {
		t.Errorf("%d routes, want the local one", n)
	}
	in := &ec2.DescribeVpcEndpointsInput{Filters: []types.Filter{{Name: aws.String("vpc-id"), Values: []string{aws.ToString(tables.RouteTables[0].VpcId)}}}}
	doctor := ec2.NewFromConfig(a.config("doctor"))
	out, err := doctor.DescribeVpcEndpoints(t.Context(), in)
	noError(t, err)
	if len(out.VpcEndpoints) != 9 {
		t.Errorf("%d endpoints, want 9", len(out.VpcEndpoints))
	}
	for _, e := range out.VpcEndpoints {
		if inside := e.VpcEndpointType == types.VpcEndpointTypeInterface; inside != (len(e.Groups) == 1) {
			t.Errorf("%s has the groups %+v", aws.ToString(e.ServiceName), e.Groups)
		}
	}
	_, err = ec2.NewFromConfig(a.config("other")).DescribeVpcEndpoints(t.Context(), in)
	wantCode(t, err, "UnauthorizedOperation")
	noError(t, a.SetEndpoints(clusterName, false))
	out, err = doctor.DescribeVpcEndpoints(t.Context(), in)
	noError(t, err)
	if len(out.VpcEndpoints) != 0 {
		t.Errorf("%d endpoints, want none", len(out.VpcEndpoints))
	}
}

// TestSimulatePrincipalPolicy: the answers are those of real calls, page by page, with the condition keys that the query does not
// have; a service control policy denies what its conditions exempt, too, as AWS's does.
func TestSimulatePrincipalPolicy(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.as(t, "some", `{"Version": "2012-10-17", "Statement": [
		{"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": "*", "Condition": {"StringEquals": {"aws:ResourceTag/team": "a"}}},
		{"Effect": "Allow", "Action": "iam:SimulatePrincipalPolicy", "Resource": "arn:aws:iam::000000000000:role/some"},
		{"Effect": "Deny", "Action": "ec2:RunInstances", "Resource": "*"}]}`)
	const role, instance = "arn:aws:iam::000000000000:role/some", "arn:aws:ec2:eu-west-1:000000000000:instance/i-1"
	tagged := []iamtypes.ContextEntry{{
		ContextKeyName: aws.String("aws:ResourceTag/team"), ContextKeyType: iamtypes.ContextKeyTypeEnumString, ContextKeyValues: []string{"a"},
	}}
	answers := func(arn string, context []iamtypes.ContextEntry) (map[string]iamtypes.EvaluationResult, error) {
		found := map[string]iamtypes.EvaluationResult{}
		pages := iam.NewSimulatePrincipalPolicyPaginator(iam.NewFromConfig(a.config("some")), &iam.SimulatePrincipalPolicyInput{
			PolicySourceArn: aws.String(arn), ActionNames: []string{"ec2:TerminateInstances", "ec2:RunInstances"},
			ResourceArns: []string{instance, "*"}, ContextEntries: context, MaxItems: aws.Int32(1),
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				return nil, err
			}
			for _, result := range page.EvaluationResults {
				found[*result.EvalActionName+" "+*result.EvalResourceName] = result
			}
		}
		return found, nil
	}
	got, err := answers(role, tagged)
	noError(t, err)
	terminate := got["ec2:TerminateInstances "+instance]
	if len(got) != 4 || terminate.EvalDecision != "allowed" || got["ec2:RunInstances *"].EvalDecision != "explicitDeny" || terminate.OrganizationsDecisionDetail != nil {
		t.Errorf("with the tag: %+v", got)
	}
	got, err = answers(role, nil)
	noError(t, err)
	terminate = got["ec2:TerminateInstances "+instance]
	if terminate.EvalDecision != "implicitDeny" || len(terminate.MissingContextValues) != 1 || terminate.MissingContextValues[0] != "aws:ResourceTag/team" {
		t.Errorf("without the tag: %+v", terminate)
	}
	_, err = answers("arn:aws:iam::000000000000:role/KarpenterNodeRole-prod", nil)
	denial(t, err, "AccessDenied", "iam:SimulatePrincipalPolicy", "role/KarpenterNodeRole-prod")

	noError(t, a.SetServiceControlPolicy(`{"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Action": "ec2:*", "Resource": "*",
		"Condition": {"StringNotEquals": {"aws:RequestedRegion": "eu-west-1"}}}}`))
	got, err = answers(role, tagged)
	noError(t, err)
	terminate = got["ec2:TerminateInstances "+instance]
	if d := terminate.OrganizationsDecisionDetail; terminate.EvalDecision != "explicitDeny" || d == nil || d.AllowedByOrganizations {
		t.Errorf("with a service control policy that exempts this region: %+v", terminate)
	}
	noError(t, a.SetServiceControlPolicy(`{"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Action": "iam:*", "Resource": "*"}}`))
	_, err = answers(role, tagged)
	denial(t, err, "AccessDenied", "with an explicit deny in a service control policy")
	if a.SetServiceControlPolicy("{") == nil {
		t.Error("a policy that cannot be parsed is accepted")
	}
	noError(t, a.SetServiceControlPolicy(""))
	if _, err = answers(role, tagged); err != nil {
		t.Error(err)
	}
}
