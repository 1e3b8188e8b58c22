package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/internal/pause"
	"github.com/plumbline-dev/plumbline/provision/iam"
	"github.com/plumbline-dev/plumbline/provision/nodegroup"
)

// initServer answers what plumbline init reads in AWS, and records the calls with the resource of each in IAM.
type initServer struct {
	mu    sync.Mutex
	calls map[string]string
}

// initAnswers are the responses by call. Their content is the least that lets init continue.
var initAnswers = map[string]string{
	"eks:DescribeCluster": `{"cluster":{"name":"prod","version":"1.36","resourcesVpcConfig":{"clusterSecurityGroupId":"sg-1"}}}`,
	"eks:ListNodegroups":  `{"nodegroups":["web"]}`,
	"eks:DescribeNodegroup": `{"nodegroup":{"nodegroupName":"web","amiType":"AL2023_x86_64_STANDARD","instanceTypes":["m5.large"],` +
		`"subnets":["subnet-1"],"launchTemplate":{"id":"lt-1","version":"1"}}}`,
	"ec2:DescribeLaunchTemplateVersions": `<R><launchTemplateVersionSet><item><launchTemplateId>lt-1</launchTemplateId>` +
		`<versionNumber>1</versionNumber><launchTemplateData/></item></launchTemplateVersionSet></R>`,
	"ec2:DescribeSubnets":       `<R><subnetSet><item><subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId></item></subnetSet></R>`,
	"ec2:DescribeRouteTables":   `<R><routeTableSet/></R>`,
	"ec2:DescribeInstanceTypes": `<R><instanceTypeSet/></R>`,
	"ec2:DescribeImages":        `<R><imagesSet/></R>`,
	"sqs:GetQueueUrl":           `{"QueueUrl":"https://sqs.eu-west-1.amazonaws.com/111122223333/prod"}`,
	"sqs:GetQueueAttributes":    `{"Attributes":{"QueueArn":"arn:aws:sqs:eu-west-1:111122223333:prod"}}`,
	"ssm:GetParameter":          `{"Parameter":{"Name":"a","Value":"ami-1"}}`,
}

var (
	scopeOfRequest = regexp.MustCompile(`Credential=[^/]+/\d+/[^/]+/([^/]+)/`)
	actionInText   = regexp.MustCompile(`\b(?:eks|ec2|sqs|ssm):[A-Z]\w+`)
)

func (s *initServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	service := scopeOfRequest.FindStringSubmatch(r.Header.Get("Authorization"))
	if err != nil || service == nil {
		http.Error(w, "no request of AWS", http.StatusBadRequest)
		return
	}
	call, resource := service[1]+":", "*"
	switch service[1] {
	case "eks":
		switch parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/"); len(parts) {
		case 2:
			call, resource = call+"DescribeCluster", "arn:aws:eks:eu-west-1:111122223333:cluster/prod"
		case 3:
			call, resource = call+"ListNodegroups", "arn:aws:eks:eu-west-1:111122223333:cluster/prod"
		default:
			call, resource = call+"DescribeNodegroup", "arn:aws:eks:eu-west-1:111122223333:nodegroup/prod/web/0123"
		}
	case "ec2":
		form, _ := url.ParseQuery(string(body)) // a malformed one has no action, and fails below
		call += form.Get("Action")
	default:
		_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		call += action
		if resource = "arn:aws:sqs:eu-west-1:111122223333:prod"; service[1] == "ssm" {
			var in struct{ Name string }
			_ = json.Unmarshal(body, &in) // a malformed one has no name, and is not allowed below
			resource = "arn:aws:ssm:eu-west-1::parameter" + in.Name
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[call] = resource
	answer, known := initAnswers[call]
	if !known {
		http.Error(w, "no answer for "+call, http.StatusNotImplemented)
		return
	}
	fmt.Fprint(w, answer)
}

// grants reports whether a statement of the policies has an action and a resource. In these policies, * is only at the end.
func grants(policies []iam.Policy, action, resource string) bool {
	for _, p := range policies {
		for _, s := range p.Document.Statement {
			for _, pattern := range s.Resource {
				prefix, wild := strings.CutSuffix(pattern, "*")
				if slices.Contains(s.Action, action) && (pattern == resource || wild && strings.HasPrefix(resource, prefix)) {
					return true
				}
			}
		}
	}
	return false
}

// TestInitIsAllowed: the policies of a user of plumbline bootstrap allow every call of plumbline init, which its help and its page
// name, and no others.
func TestInitIsAllowed(t *testing.T) {
	server := &initServer{calls: map[string]string{}}
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": listening.URL, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
	aws, err := dialPatiently(t.Context(), "eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	reader := &nodegroup.Reader{AWS: aws, Region: "eu-west-1", Now: time.Now, Wait: func(ctx context.Context, until time.Time) error {
		return pause.For(ctx, time.Until(until))
	}}
	if _, err := reader.Read(t.Context(), "prod", nil); err != nil {
		t.Fatal(err)
	}
	cluster := iam.Cluster{Name: "prod", Region: "eu-west-1", Account: "111122223333"}
	policies, err := (&iamPolicyOptions{version: "1.15.0"}).bootstrapPolicies(cluster)
	if err != nil {
		t.Fatal(err)
	}
	for call, resource := range server.calls {
		if !grants(policies, call, resource) {
			t.Errorf("%s on %s is not allowed", call, resource)
		}
	}
	page, err := os.ReadFile("../../docs/how-to/write-first-definitions.md")
	if err != nil {
		t.Fatal(err)
	}
	made := slices.Sorted(maps.Keys(server.calls))
	for where, text := range map[string]string{"the help": newInitCommand(newInit()).Long, "the page": string(page)} {
		named := actionInText.FindAllString(text, -1)
		slices.Sort(named)
		if diff := cmp.Diff(made, slices.Compact(named)); diff != "" {
			t.Errorf("%s (-calls +named):\n%s", where, diff)
		}
	}
}
