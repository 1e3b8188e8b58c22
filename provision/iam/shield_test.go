package iam

import (
	"strings"
	"testing"
)

// TestShield: it denies the termination of the cluster's instances and the use of its name, and nothing of another cluster;
// as a service control policy, not to the exceptions.
func TestShield(t *testing.T) {
	c := Cluster{Name: "prod", Region: "eu-west-1", Account: "111122223333"}
	allowAll := Document{Version: languageVersion, Statement: []Statement{{Effect: Allow, Action: Values{"*"}, Resource: Values{"*"}}}}
	deny, err := Shield(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	instance, template := "arn:aws:ec2:eu-west-1:111122223333:instance/i-1", "arn:aws:ec2:eu-west-1:111122223333:launch-template/lt-1"
	of := func(cluster string) map[string]string {
		return map[string]string{"kubernetes.io/cluster/" + cluster: "owned"}
	}
	for name, test := range map[string]struct {
		request Request
		denied  bool
	}{
		"terminate":                    {Request{Action: "ec2:TerminateInstances", Resource: instance, ResourceTags: of("prod")}, true},
		"terminate another's":          {Request{Action: "ec2:TerminateInstances", Resource: instance, ResourceTags: of("other")}, false},
		"launch":                       {Request{Action: "ec2:RunInstances", Resource: instance, RequestTags: of("prod"), ResourceTags: noTags}, true},
		"launch another's":             {Request{Action: "ec2:RunInstances", Resource: instance, RequestTags: of("other"), ResourceTags: noTags}, false},
		"delete a template":            {Request{Action: "ec2:DeleteLaunchTemplate", Resource: template, ResourceTags: of("prod")}, true},
		"create a template":            {Request{Action: "ec2:CreateLaunchTemplate", Resource: template, RequestTags: of("prod"), ResourceTags: noTags}, true},
		"create a template of its own": {Request{Action: "ec2:CreateLaunchTemplate", Resource: template, RequestTags: of("other"), ResourceTags: noTags}, false},
	} {
		test.request.Region = c.Region
		if got := Evaluate([]Document{allowAll, deny}, test.request).Decision; got == Denied != test.denied {
			t.Errorf("%s: %s", name, got)
		}
	}
	policy, err := Shield(c, Values{"arn:aws:iam::111122223333:role/KarpenterControllerRole-prod"})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range policy.Statement {
		if got := s.Condition["ArnNotLike"]["aws:PrincipalArn"]; len(got) != 1 || !strings.HasSuffix(got[0], "-prod") {
			t.Errorf("%s applies to this cluster's controller: %v", s.Sid, s.Condition)
		}
	}
	if _, err := Shield(Cluster{Name: "*", Region: "eu-west-1", Account: "111122223333"}, nil); err == nil {
		t.Error("a wildcard is accepted")
	}
}
