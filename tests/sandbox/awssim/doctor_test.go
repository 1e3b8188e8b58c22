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
	_, err = ec2.NewFromConfig(a.config("other")).DescribeVpcEndpoints(t.Context(), in)
	wantCode(t, err, "UnauthorizedOperation")
	noError(t, a.SetEndpoints(clusterName, false))
	out, err = doctor.DescribeVpcEndpoints(t.Context(), in)
	noError(t, err)
	if len(out.VpcEndpoints) != 0 {
		t.Errorf("%d endpoints, want none", len(out.VpcEndpoints))
	}
}
