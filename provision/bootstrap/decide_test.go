package bootstrap

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

const trustsEC2 = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

// nodes returns a role of nodes that needs no change.
func nodes() *cloud.Role {
	role := &cloud.Role{ARN: "arn:aws:iam::111122223333:role/team/KarpenterNodeRole-production", Trust: trustsEC2, Description: "by hand"}
	for _, name := range nodePolicies {
		role.Policies = append(role.Policies, cloud.RolePolicy{Name: name, ARN: "arn:aws:iam::aws:policy/" + name})
	}
	role.Policies = append(role.Policies, cloud.RolePolicy{Name: "own"})
	return role
}

// TestChoose: a role of nodes that needs no change is adopted as it is; everything else that exists is avoided.
func TestChoose(t *testing.T) {
	other := nodes()
	other.Trust = strings.ReplaceAll(trustsEC2, "ec2.", "lambda.")
	fewer := nodes()
	fewer.Policies = fewer.Policies[1:]
	open := nodes()
	open.Trust = strings.Replace(trustsEC2, `"Principal":{`, `"Principal":{"AWS":"*",`, 1)
	owned := nodes()
	owned.Tags = map[string]string{"aws:cloudformation:stack-name": "Karpenter-production"}
	for name, c := range map[string]struct {
		found map[string]*cloud.Role
		want  string
	}{
		"nothing":         {nil, ""},
		"same role":       {map[string]*cloud.Role{NodeRole: nodes()}, "imported into the stack unchanged"},
		"more policies":   {map[string]*cloud.Role{NodeRole: nodes()}, "it also has the policy own, which all nodes get"},
		"open trust":      {map[string]*cloud.Role{NodeRole: open}, "(its trust policy also names AWS *)"},
		"other trust":     {map[string]*cloud.Role{NodeRole: other}, "is named KarpenterNodeRole-production-plumbline (its trust policy also names Service lambda"},
		"fewer policies":  {map[string]*cloud.Role{NodeRole: fewer}, "(it does not have the policy AmazonEKSWorkerNodePolicy)"},
		"of a stack":      {map[string]*cloud.Role{NodeRole: owned}, "(it belongs to the stack Karpenter-production)"},
		"controller role": {map[string]*cloud.Role{ControllerRole: nodes()}, "is named KarpenterControllerRole-production-plumbline"},
		"queue":           {map[string]*cloud.Role{Queue: nil}, "is named production-plumbline"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := specOf("production", "eu-west-1")
			choices := spec.Choose(Template{}, c.found)
			var said []string
			for _, one := range choices {
				said = append(said, one.String())
			}
			if got := strings.Join(said, "\n"); !strings.Contains(got, c.want) || len(choices) != len(c.found) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			template := made(t, spec)
			for _, one := range choices {
				r := template.Resources[one.ID]
				if got := template.NamesIn()[one.ID]; one.Adopted != (r.DeletionPolicy == retain) || got != one.Instead && !one.Adopted {
					t.Errorf("%s: %+v", got, r)
				}
			}
			// A later run, which sees the stack's template, decides the same, whatever exists.
			again := specOf("production", "eu-west-1")
			if choices := again.Choose(template, c.found); len(choices) != 0 {
				t.Errorf("later: %v", choices)
			}
			if diff := cmp.Diff(template.NamesIn(), made(t, again).NamesIn()); diff != "" {
				t.Errorf("names differ later:\n%s", diff)
			}
		})
	}
}

// TestImport: the template of an import has only the adopted role, as it is.
func TestImport(t *testing.T) {
	spec := specOf("production", "eu-west-1")
	spec.Choose(Template{}, map[string]*cloud.Role{NodeRole: nodes()})
	imported := made(t, spec).Import()
	role := imported.Resources[NodeRole]
	if len(imported.Resources) != 1 || role.Type != "AWS::IAM::Role" || len(imported.Outputs) != 0 {
		t.Fatalf("%+v", imported)
	}
	for property, want := range map[string]any{"RoleName": "KarpenterNodeRole-production", "Path": "/team/", "Description": "by hand"} {
		if role.Properties[property] != want {
			t.Errorf("%s: %v, want %v", property, role.Properties[property], want)
		}
	}
}

func TestNext(t *testing.T) {
	for status, want := range map[string]Action{
		"": Create, "REVIEW_IN_PROGRESS": Create, "DELETE_COMPLETE": Create,
		"CREATE_IN_PROGRESS": Follow, "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS": Follow, "ROLLBACK_IN_PROGRESS": Follow, "DELETE_IN_PROGRESS": Follow,
		"CREATE_COMPLETE": Update, "UPDATE_COMPLETE": Update, "UPDATE_ROLLBACK_COMPLETE": Update, "IMPORT_COMPLETE": Update,
		"ROLLBACK_COMPLETE": Recreate, "ROLLBACK_FAILED": Recreate, "UPDATE_ROLLBACK_FAILED": Continue, "DELETE_FAILED": Refuse, "NEW_STATE": Refuse,
	} {
		t.Run(status, func(t *testing.T) {
			var stack *cloud.Stack
			if status != "" {
				stack = &cloud.Stack{Name: "plumbline-production", Status: status}
			}
			got, why := Next(stack, "IAM::Role x: denied")
			if got != want {
				t.Errorf("%s (%s), want %s", got, why, want)
			}
			if explains := got == Recreate || got == Continue; explains != strings.Contains(why, "IAM::Role x: denied") && got != Refuse {
				t.Errorf("why: %q", why)
			}
		})
	}
	for status, want := range map[string]Action{"CREATE_COMPLETE": Delete, "DELETE_FAILED": Delete, "UPDATE_IN_PROGRESS": Follow, "DELETE_COMPLETE": Nothing} {
		if got, _ := NextOfUndo(&cloud.Stack{Status: status}); got != want {
			t.Errorf("undo of %s: %s, want %s", status, got, want)
		}
	}
}

// TestFailure: the reason is the first resource that AWS refused, not those that were cancelled, nor the stack.
func TestFailure(t *testing.T) {
	events := []cloud.StackEvent{
		{ID: "s", Type: "AWS::CloudFormation::Stack", Status: "ROLLBACK_IN_PROGRESS", Reason: "The following resource(s) failed to create"},
		{ID: Queue, Type: "AWS::SQS::Queue", Status: "CREATE_FAILED", Reason: "Resource creation cancelled"},
		{ID: NodeRole, Name: "KarpenterNodeRole-production", Type: "AWS::IAM::Role", Status: "CREATE_FAILED", Reason: "not authorized to perform iam:CreateRole"},
		{ID: NodeRole, Type: "AWS::IAM::Role", Status: "CREATE_IN_PROGRESS"},
	}
	if got, want := Failure(events), "IAM::Role KarpenterNodeRole-production: not authorized to perform iam:CreateRole"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Failure(events[3:]); got != "" {
		t.Errorf("no failure: %q", got)
	}
	for want, e := range map[string]cloud.StackEvent{
		"creating IAM::Role KarpenterNodeRole": events[3],
		"could not create IAM::Role KarpenterNodeRole-production: not authorized to perform iam:CreateRole": events[2],
		"stack: rollback in progress": events[0],
	} {
		if got := Words(e); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestDecideRefuses what would take the credentials or permissions of running pods away.
func TestDecideRefuses(t *testing.T) {
	made := made(t, specOf("production", "eu-west-1"))
	facts := Facts{
		Account: "111122223333", Cluster: cloud.Cluster{Name: "production", ARN: "arn:aws:eks:eu-west-1:111122223333:cluster/production", Status: "ACTIVE", AuthenticationMode: "API"},
		Agent: true, Provider: true, Current: made,
		Stack: &cloud.Stack{Name: "plumbline-production", Status: "CREATE_COMPLETE", Outputs: map[string]string{OutputAuth: string(PodIdentity), OutputVersion: "1.15.0"}},
	}
	same := specOf("production", "eu-west-1")
	wish := Wish{Region: "eu-west-1", Controller: same.Controller, Plumbline: same.Plumbline, Daemon: same.Daemon}
	if _, _, err := Decide(wish, facts); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Wish)
		says   string
	}{
		"another way to get credentials": {func(w *Wish) { w.Auth = IRSA }, "running ones would lose them"},
		"another namespace":              {func(w *Wish) { w.Plumbline.Namespace = "other" }, "gives its role to ServiceAccount plumbline-system/plumbline"},
		"an older version":               {func(w *Wish) { w.Upgrade, w.Version = true, "1.0.0" }, "would take permissions from it"},
	} {
		w := wish
		c.change(&w)
		if _, _, err := Decide(w, facts); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
