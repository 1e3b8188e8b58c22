package cloud

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tagged answers requests about tags of a network in EC2, and keeps them.
type tagged struct{ asked []string }

func (s *tagged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	form, ok := formOf(w, r)
	if !ok {
		return
	}
	action := form.Get("Action")
	filter := form.Get("Filter.1.Name") + "=" + form.Get("Filter.1.Value.1")
	switch action {
	case "DescribeSubnets":
		s.asked = append(s.asked, action+" "+filter)
		fmt.Fprint(w, `<DescribeSubnetsResponse><subnetSet><item><subnetId>subnet-2</subnetId></item><item><subnetId>subnet-1</subnetId></item></subnetSet></DescribeSubnetsResponse>`)
	case "DescribeSecurityGroups":
		s.asked = append(s.asked, action+" "+filter)
		fmt.Fprint(w, `<DescribeSecurityGroupsResponse><securityGroupInfo><item><groupId>sg-1</groupId></item></securityGroupInfo></DescribeSecurityGroupsResponse>`)
	default:
		count := 0
		for key := range form {
			if strings.HasPrefix(key, "ResourceId.") {
				count++
			}
		}
		s.asked = append(s.asked, fmt.Sprintf("%s of %d: %s=%s", action, count, form.Get("Tag.1.Key"), form.Get("Tag.1.Value")))
		if form.Get("ResourceId.1") == "sg-denied" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>no</Message></Error></Errors></Response>`)
			return
		}
		fmt.Fprintf(w, `<%[1]sResponse><return>true</return></%[1]sResponse>`, action)
	}
}

// TestTags finds a network by a tag, and sets and deletes tags in groups that one request can name.
func TestTags(t *testing.T) {
	aws := &tagged{}
	p := &Provisioner{connect(t, aws, Options{Attempts: 1}), func(string) {}}
	found, err := p.TaggedNetwork(t.Context(), "plumbline.dev/bootstrap", "plumbline-prod")
	if diff := cmp.Diff([]string{"subnet-1", "subnet-2", "sg-1"}, found); diff != "" || err != nil {
		t.Errorf("found (-want +got), error %v:\n%s", err, diff)
	}
	many := slices.Repeat([]string{"subnet-1"}, taggedTogether+1)
	tag := map[string]string{"karpenter.sh/discovery": "prod"}
	if err := errors.Join(p.Tag(t.Context(), many, tag), p.Untag(t.Context(), []string{"sg-1"}, tag), p.Tag(t.Context(), nil, tag)); err != nil {
		t.Error(err)
	}
	var denied *DeniedError
	if err := p.Tag(t.Context(), []string{"sg-denied"}, tag); !errors.As(err, &denied) || !strings.Contains(err.Error(), "ec2:CreateTags") {
		t.Errorf("denied: %v", err)
	}
	if diff := cmp.Diff([]string{
		"DescribeSubnets tag:plumbline.dev/bootstrap=plumbline-prod", "DescribeSecurityGroups tag:plumbline.dev/bootstrap=plumbline-prod",
		"CreateTags of 1000: karpenter.sh/discovery=prod", "CreateTags of 1: karpenter.sh/discovery=prod",
		"DeleteTags of 1: karpenter.sh/discovery=prod", "CreateTags of 1: karpenter.sh/discovery=prod",
	}, aws.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
