package preflight

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
)

// eksctlPolicy is a policy of the shape that eksctl writes: one statement, every resource, no condition.
const eksctlPolicy = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Resource": "*", "Action": [
	"ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "ec2:RunInstances", "ec2:TerminateInstances", "ec2:DeleteLaunchTemplate",
	"ec2:DescribeInstances", "iam:PassRole", "ssm:GetParameter"]}]}`

func TestControllerRole(t *testing.T) {
	without := func(action string) func(*Observed) {
		return func(o *Observed) {
			policies := o.Grant.Of.Role.Policies
			for i := range policies {
				policies[i].Text = strings.ReplaceAll(policies[i].Text, `"`+action+`"`, `"s3:GetObject"`)
			}
		}
	}
	irsa := func(text string) func(*Observed) {
		return func(o *Observed) {
			o.Grant.Of.Association, o.Grant.Of.Role.Trust, o.Agent.Of = nil, text, false
		}
	}
	const federated = `{"Statement": [{"Effect": "Allow", "Action": "sts:AssumeRoleWithWebIdentity",
		"Principal": {"Federated": "arn:aws:iam::111122223333:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/ABC"},
		"Condition": {"StringEquals": {"oidc.eks.eu-west-1.amazonaws.com/id/ABC:sub": "system:serviceaccount:kube-system:karpenter"}}}]}`
	run(t, "controller-role", map[string]looked{
		"no termination": {without("ec2:TerminateInstances"), Problem, "do not allow ec2:TerminateInstances as Karpenter 1.15.0", `"Sid": "Terminate"`, ""},
		"no termination, of eksctl": {func(o *Observed) {
			without("ec2:TerminateInstances")(o)
			o.Grant.Of.Role.Tags = map[string]string{"alpha.eksctl.io/cluster-name": "prod"}
		}, Problem, "do not allow ec2:TerminateInstances", "eksctl update podidentityassociation -f FILE", ""},
		"no termination, of terraform-aws-eks": {func(o *Observed) {
			without("ec2:TerminateInstances")(o)
			p := &o.Grant.Of.Role.Policies[0]
			p.Name, p.Text = "KarpenterController-202611301200001234000000a1", strings.ReplaceAll(p.Text, `"Terminate"`, `"AllowScopedDeletion"`)
		}, Problem, "do not allow ec2:TerminateInstances", "iam_policy_statements = [{\n  sid       = \"Terminate\"", ""},
		"no queue":    {without("sqs:ReceiveMessage"), Problem, "needed for settings.interruptionQueue", "--queue", ""},
		"no profiles": {without("iam:CreateInstanceProfile"), Problem, "needed for EC2NodeClasses with spec.role", "CreateProfiles", ""},
		"no prices":   {without("pricing:GetProducts"), Warning, "needed for current prices", "ReadPrices", ""},
		"another ServiceAccount is trusted": {
			irsa(strings.ReplaceAll(federated, "kube-system:", "karpenter:")), Problem,
			"does not allow sts:AssumeRoleWithWebIdentity", "system:serviceaccount:kube-system:karpenter", "",
		},
		"another cluster is trusted": {irsa(strings.ReplaceAll(federated, "ABC", "DEF")), Problem, "oidc-provider/" + issuer, "Federated", ""},
		"IRSA":                       {irsa(federated), OK, "", "", ""},
		"IRSA with a pattern":        {irsa(strings.NewReplacer("StringEquals", "StringLike", "karpenter\"", "karp*\"").Replace(federated)), OK, "", "", ""},
		"no session tags": {
			func(o *Observed) { o.Grant.Of.Role.Trust = strings.ReplaceAll(trusted, `, "sts:TagSession"`, "") }, Problem,
			"does not allow sts:TagSession", "sts:TagSession", "",
		},
		"another service": {
			func(o *Observed) { o.Grant.Of.Role.Trust = strings.ReplaceAll(trusted, "pods.eks", "ec2") }, Problem,
			"does not allow sts:AssumeRole to pods.eks.amazonaws.com", "pods.eks.amazonaws.com", "",
		},
		"another cluster in the condition": {func(o *Observed) {
			o.Grant.Of.Role.Trust = strings.Replace(trusted, `"Action"`, `"Condition": {"StringEquals": {"aws:SourceArn": "arn:aws:eks:eu-west-1:111122223333:cluster/other"}}, "Action"`, 1)
		}, Problem, "does not allow sts:AssumeRole", "", ""},
		"a trust that is not evaluated": {func(o *Observed) {
			o.Grant.Of.Role.Trust = strings.Replace(trusted, `"Action"`, `"Condition": {"StringEquals": {"aws:PrincipalOrgID": "o-1"}}, "Action"`, 1)
		}, Unknown, "aws:PrincipalOrgID", "", ""},
		"a role that no class names": {func(o *Observed) {
			o.NodeRoles, o.Classes.Of = nil, nil
			passes(o, "arn:aws:iam::111122223333:role/other")
		}, Warning, "no EC2NodeClass names a role yet", "PassNodeRole", ""},
		"no agent": {func(o *Observed) { o.Agent.Of = false }, Problem, "no add-on eks-pod-identity-agent", "aws eks create-addon", ""},
		"no role":  {func(o *Observed) { o.Grant.Of = cloud.Grant{} }, Unknown, "neither a Pod Identity association nor the annotation", "create-pod-identity-association", ""},
		"a boundary without termination": {func(o *Observed) {
			o.Grant.Of.Role.Boundary = &cloud.RolePolicy{ARN: "arn:b", Text: `{"Statement": [
				{"Effect": "Allow", "Action": "*", "Resource": "*"}, {"Effect": "Deny", "Action": "ec2:TerminateInstances", "Resource": "*"}]}`}
		}, Problem, "ec2:TerminateInstances", "", ""},
		"a policy that is not parsed": {func(o *Observed) { o.Grant.Of.Role.Policies[0].Text = `{"Statement": []}` }, Unknown, "it has no statement", "", ""},
		"a version that is unknown":   {func(o *Observed) { o.Version = "9.0.0" }, Unknown, "9.0.0", "", ""},
		"a role that does not exist": {func(o *Observed) {
			o.Grant.Of.Role, o.Grant.Err = cloud.Role{}, &cloud.NotFoundError{What: "IAM role x", Where: "here", Check: "its name"}
		}, Problem, "does not exist", "correct its name", ""},
		"denied": {func(o *Observed) {
			o.Grant.Of.Role = cloud.Role{Trust: trusted}
			o.Grant.Err = errors.Join(denied("iam:ListRolePolicies"), denied("iam:ListAttachedRolePolicies"))
		}, Unknown, "AWS denies iam:ListRolePolicies", "manifests/iam-policy-doctor.json", "iam:ListRolePolicies"},
		"associations denied": {func(o *Observed) {
			o.Grant = Value[cloud.Grant]{Err: denied("eks:ListPodIdentityAssociations")}
		}, Unknown, "AWS denies", "allow eks:ListPodIdentityAssociations on *", "eks:ListPodIdentityAssociations"},
		"no credentials": {func(o *Observed) {
			o.Grant = Value[cloud.Grant]{Err: &cloud.CredentialsError{}}
		}, Unknown, "no AWS credentials found", "AWS_PROFILE", ""},
		"add-ons denied": {func(o *Observed) { o.Agent = Value[bool]{Err: denied("eks:ListAddons")} }, Unknown, "AWS denies", "", "eks:ListAddons"},
	})
}

// TestVolumeKeys: Karpenter's role may use the keys of volumes, by the key's policy and its own.
func TestVolumeKeys(t *testing.T) {
	const (
		keyARN    = "arn:aws:kms:eu-west-1:111122223333:key/k"
		delegates = `{"Statement": [{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::111122223333:root"}, "Action": "kms:*", "Resource": "*"}]}`
	)
	key := func(change func(*VolumeKey)) func(*Observed) {
		return func(o *Observed) {
			k := VolumeKey{Name: "alias/volumes", Classes: []string{"default", "gpu"}, Key: Value[cloud.Key]{Of: cloud.Key{ARN: keyARN, State: "Enabled", Policy: delegates}}}
			change(&k)
			o.VolumeKeys = []VolumeKey{k}
		}
	}
	run(t, "controller-role", map[string]looked{
		"the role may not": {
			key(func(*VolumeKey) {}), Problem, roleARN + " may not use the KMS key alias/volumes of EC2NodeClass/default, EC2NodeClass/gpu (kms:CreateGrant)", `"UseVolumeKeys"`, "",
		},
		"the role may": {func(o *Observed) {
			key(func(*VolumeKey) {})(o)
			o.Grant.Of.Role.Policies = append(o.Grant.Of.Role.Policies, cloud.RolePolicy{Name: "keys", Text: `{"Version": "2012-10-17", "Statement": [` + indented(iam.VolumeKeyStatement("eu-west-1", keyARN)) + `]}`})
		}, OK, "", "", ""},
		"the key allows it": {key(func(k *VolumeKey) {
			k.Key.Of.Policy = `{"Statement": [{"Effect": "Allow", "Principal": {"AWS": "` + roleARN + `"}, "Action": "kms:*", "Resource": "*"}]}`
		}), OK, "", "", ""},
		"of AWS":   {key(func(k *VolumeKey) { k.Key.Of.OfAWS, k.Key.Of.Policy = true, "" }), OK, "", "", ""},
		"disabled": {key(func(k *VolumeKey) { k.Key.Of.State = "Disabled" }), Problem, "alias/volumes of EC2NodeClass/default, EC2NodeClass/gpu is Disabled", "aws kms enable-key", ""},
		"not evaluated": {key(func(k *VolumeKey) {
			k.Key.Of.Policy = `{"Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "kms:*", "Resource": "*", "Condition": {"StringEquals": {"aws:PrincipalOrgID": "o-1"}}}]}`
		}), Unknown, "aws:PrincipalOrgID", "", ""},
		"no policy": {key(func(k *VolumeKey) { k.Key.Of.Policy = "{" }), Unknown, "the policy of KMS key alias/volumes", "", ""},
		"denied":    {key(func(k *VolumeKey) { k.Key.Err = denied("kms:DescribeKey") }), Unknown, "AWS denies", "", "kms:DescribeKey"},
		"does not exist": {key(func(k *VolumeKey) {
			k.Key.Err = &cloud.NotFoundError{What: "KMS key alias/volumes", Where: "here", Check: "what names it"}
		}), Problem, "KMS key alias/volumes does not exist", "", ""},
	})
}

// TestReadVolumeKeys: each key that EC2NodeClasses name is read once, except AWS's own.
func TestReadVolumeKeys(t *testing.T) {
	class := func(name string, keys ...string) awsv1.EC2NodeClass {
		c := awsv1.EC2NodeClass{ObjectMeta: meta("", name, nil)}
		for _, key := range keys {
			c.Spec.BlockDeviceMappings = append(c.Spec.BlockDeviceMappings, &awsv1.BlockDeviceMapping{EBS: &awsv1.BlockDevice{KMSKeyID: &key}})
		}
		c.Spec.BlockDeviceMappings = append(c.Spec.BlockDeviceMappings, &awsv1.BlockDeviceMapping{}, &awsv1.BlockDeviceMapping{EBS: &awsv1.BlockDevice{}})
		return c
	}
	r := &Reader{AWS: &keyed{}}
	o := Observed{}
	o.Classes.Of = []awsv1.EC2NodeClass{class("b", "k", "alias/aws/ebs", "k"), class("a", "k", "j"), class("c")}
	r.volumeKeys(t.Context(), &o)
	want := []VolumeKey{
		{Name: "j", Classes: []string{"a"}, Key: Value[cloud.Key]{Of: cloud.Key{ARN: "arn:j"}}},
		{Name: "k", Classes: []string{"a", "b"}, Key: Value[cloud.Key]{Of: cloud.Key{ARN: "arn:k"}}},
	}
	if diff := cmp.Diff(want, o.VolumeKeys); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// simulating is an account whose policy simulator answers with a function.
type simulating struct {
	account0

	answer func(cloud.Simulation) cloud.Simulated
	asked  []cloud.Simulation
	role   string
}

func (s *simulating) Simulate(_ context.Context, roleARN string, questions []cloud.Simulation) ([]cloud.Simulated, error) {
	s.asked, s.role = questions, roleARN
	var all []cloud.Simulated
	for _, q := range questions {
		all = append(all, s.answer(q))
	}
	return all, s.fail("iam:SimulatePrincipalPolicy")
}

// TestSimulation: AWS's own evaluator is compared with plumbline's. A difference is unknown, with both decisions; what a service
// control policy denies, and a call that is denied, lose nothing.
func TestSimulation(t *testing.T) {
	// own answers as plumbline's evaluator does, which has its tests against AWS's documentation.
	own := func(q cloud.Simulation) cloud.Simulated {
		o := healthy(t)
		policies, _, err := Documents(o.Grant.Of)
		c, _ := o.controller()
		requests, unknown := iam.Requests(version, o.iamCluster(c))
		if err != nil || unknown != nil {
			t.Fatal(err, unknown)
		}
		for _, one := range requests {
			if resource, keys := one.Context(); one.Action == q.Action && resource == q.Resource && cmp.Equal(keys, q.Context) {
				return cloud.Simulated{Allowed: iam.Evaluate(policies, one).Decision == iam.Allowed}
			}
		}
		t.Fatalf("a question that is not asked: %+v", q)
		return cloud.Simulated{}
	}
	for name, c := range map[string]struct {
		answer       func(cloud.Simulation) cloud.Simulated
		err          func(string) error
		status       Status
		looked, says string
	}{
		"the same": {own, nil, OK, ", compared with iam:SimulatePrincipalPolicy", ""},
		"a difference": {func(q cloud.Simulation) cloud.Simulated {
			return cloud.Simulated{Allowed: own(q).Allowed && q.Action != "ec2:TerminateInstances"}
		}, nil, Unknown, ", compared with", "ec2:TerminateInstances: by plumbline's evaluation the policies decide Allowed, and by iam:SimulatePrincipalPolicy Denied"},
		"a service control policy": {func(cloud.Simulation) cloud.Simulated { return cloud.Simulated{ByOrganization: true} }, nil, OK, "answers are unknown: a service control policy", ""},
		"denied":                   {own, denied, OK, ", not compared with iam:SimulatePrincipalPolicy: AWS denies it", ""},
		"it fails":                 {own, func(string) error { return &cloud.ThrottledError{Action: "iam:SimulatePrincipalPolicy"} }, OK, ", not compared with iam:SimulatePrincipalPolicy: AWS throttles", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := healthy(t)
			aws := &simulating{account0: account0{err: c.err}, answer: c.answer}
			(&Reader{AWS: aws}).simulation(t.Context(), &o)
			if aws.role != roleARN || len(aws.asked) < 50 {
				t.Errorf("%d questions about %s", len(aws.asked), aws.role)
			}
			for _, id := range []string{"controller-role", "controller-reach"} {
				r := look(t, id, o)
				if r.Status != c.status || !strings.Contains(r.Looked, c.looked) {
					t.Errorf("%s is %s: %+v", id, r.Status, r)
				}
				if c.says != "" && (len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Message, c.says) || r.Findings[0].Fix == "") {
					t.Errorf("%s: %+v", id, r.Findings)
				}
			}
		})
	}
	// Without a role there is nothing to ask.
	o := healthy(t)
	o.Grant = Value[cloud.Grant]{Err: denied("iam:GetRole")}
	aws := &simulating{answer: own}
	if (&Reader{AWS: aws}).simulation(t.Context(), &o); len(aws.asked) > 0 || o.compared() != "" {
		t.Errorf("%d questions, %q", len(aws.asked), o.compared())
	}
}

// documentedSimulations finds how many requests the comparison with IAM's policy simulator takes.
var documentedSimulations = regexp.MustCompile(`\| IAM's policy simulator[^|]*\| (\d+) \|`)

// TestSimulationRequests: the documentation states how many requests the comparison takes.
func TestSimulationRequests(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, `<SimulatePrincipalPolicyResponse><SimulatePrincipalPolicyResult><EvaluationResults>`)
		for a := 1; r.Form.Has(fmt.Sprintf("ActionNames.member.%d", a)); a++ {
			for of := 1; r.Form.Has(fmt.Sprintf("ResourceArns.member.%d", of)); of++ {
				fmt.Fprintf(w, `<member><EvalActionName>%s</EvalActionName><EvalResourceName>%s</EvalResourceName><EvalDecision>allowed</EvalDecision></member>`,
					r.Form.Get(fmt.Sprintf("ActionNames.member.%d", a)), r.Form.Get(fmt.Sprintf("ResourceArns.member.%d", of)))
			}
		}
		fmt.Fprint(w, `</EvaluationResults></SimulatePrincipalPolicyResult></SimulatePrincipalPolicyResponse>`)
	}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_CONFIG_FILE": t.TempDir() + "/none", "AWS_SHARED_CREDENTIALS_FILE": t.TempDir() + "/none",
	} {
		t.Setenv(name, value)
	}
	aws, err := cloud.New(t.Context(), cloud.Options{Region: "eu-west-1"})
	if err != nil {
		t.Fatal(err)
	}
	o := healthy(t)
	if (&Reader{AWS: aws}).simulation(t.Context(), &o); o.Simulation.Err != nil {
		t.Fatal(o.Simulation.Err)
	}
	text, err := os.ReadFile("../../" + Docs)
	if err != nil {
		t.Fatal(err)
	}
	documented := documentedSimulations.FindSubmatch(text)
	if documented == nil || string(documented[1]) != strconv.Itoa(requests) {
		t.Errorf("the comparison takes %d requests, and %s states %s", requests, Docs, documented)
	}
}

func TestControllerReach(t *testing.T) {
	replace := func(old, by string) func(*Observed) {
		return func(o *Observed) {
			policies := o.Grant.Of.Role.Policies
			for i := range policies {
				policies[i].Text = strings.ReplaceAll(policies[i].Text, old, by)
			}
		}
	}
	only := func(text string) func(*Observed) {
		return func(o *Observed) { o.Grant.Of.Role.Policies = []cloud.RolePolicy{{Name: "all", Text: text}} }
	}
	run(t, "controller-reach", map[string]looked{
		"eksctl's": {only(eksctlPolicy), Problem, "may terminate any instances of the account", `aws:ResourceTag/kubernetes.io/cluster/prod`, ""},
		"tags that are like anything": {only(`{"Statement": [{"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": "*",
			"Condition": {"StringLike": {"ec2:ResourceTag/kubernetes.io/cluster/prod": "*"}}}]}`), Problem, "shared with this cluster", "Terminate", ""},
		"any role":      {replace("role/"+nodeRole0, "role/*"), Problem, "may pass any role of the account to EC2", "PassNodeRole", ""},
		"any parameter": {replace("::parameter/aws/service/*", ":*:parameter/*"), Warning, "may read any parameter", "", ""},
		"within a boundary": {func(o *Observed) {
			only(eksctlPolicy)(o)
			o.Grant.Of.Role.Boundary = &cloud.RolePolicy{Name: "limit", Text: needed(t)[0].Text}
		}, OK, "", "", ""},
		"denied": {func(o *Observed) { o.Grant.Err = denied("iam:GetPolicyVersion") }, Unknown, "AWS denies", "iam:GetPolicyVersion", "iam:GetPolicyVersion"},
	})
}
