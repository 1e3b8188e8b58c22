package awssim

import (
	"cmp"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/iam"
)

const oidcType = "AWS::IAM::OIDCProvider"

func (w *work) iam(action string, input object) error {
	_, err := w.call(awsCall{service: "iam", action: action, input: input})
	return err
}

var roleKind = resourceKind{
	required:   []string{"AssumeRolePolicyDocument"},
	optional:   []string{"Description", "ManagedPolicyArns", "MaxSessionDuration", "Path", "Policies", "RoleName", "Tags"},
	createOnly: []string{"Path", "RoleName"}, name: "RoleName", attributes: []string{"Arn", "RoleId"},
	identifier: []string{"RoleName"}, taggable: true,
	create: createStackRole, update: updateStackRole, delete: deleteStackRole, read: readStackRole,
}

func createStackRole(w *work) error {
	name := w.named("RoleName", longestRole)
	out, err := answerOf[iam.CreateRoleOutput](w, awsCall{service: "iam", action: "CreateRole", input: object{
		"RoleName": name, "Path": textOf(w.after, "Path"), "AssumeRolePolicyDocument": documentOf(w.after, "AssumeRolePolicyDocument"),
		"Description": textOf(w.after, "Description"), "MaxSessionDuration": textOf(w.after, "MaxSessionDuration"),
		"Tags": tagList(w.tagsAfter()),
	}})
	if err != nil {
		return err
	}
	w.made(name, roleAttributes(out.Role))
	return w.changeRolePolicies()
}

func roleAttributes(r *iam.Role) map[string]string {
	return map[string]string{"Arn": aws.StringValue(r.Arn), "RoleId": aws.StringValue(r.RoleId)}
}

func updateStackRole(w *work) error {
	role := w.of.physicalID
	if w.changes("AssumeRolePolicyDocument") {
		err := w.iam("UpdateAssumeRolePolicy", object{"RoleName": role, "PolicyDocument": documentOf(w.after, "AssumeRolePolicyDocument")})
		if err != nil {
			return err
		}
	}
	if w.changes("Description", "MaxSessionDuration") {
		err := w.iam("UpdateRole", object{
			"RoleName": role, "Description": textOf(w.after, "Description"),
			"MaxSessionDuration": cmp.Or(textOf(w.after, "MaxSessionDuration"), "3600"),
		})
		if err != nil {
			return err
		}
	}
	if err := w.changeRolePolicies(); err != nil {
		return err
	}
	set, removed := w.changedTags()
	if len(removed) > 0 {
		if err := w.iam("UntagRole", object{"RoleName": role, "TagKeys": removed}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	return w.iam("TagRole", object{"RoleName": role, "Tags": tagList(set)})
}

// inlineOf returns the inline policies in the properties of a role.
func inlineOf(properties map[string]any) map[string]string {
	policies := map[string]string{}
	for _, item := range listOf(properties, "Policies") {
		if p, ok := item.(map[string]any); ok {
			policies[textOf(p, "PolicyName")] = documentOf(p, "PolicyDocument")
		}
	}
	return policies
}

// changeRolePolicies removes the policies of before from the role, and adds those of after.
func (w *work) changeRolePolicies() error {
	role := w.of.physicalID
	before, after := inlineOf(w.before), inlineOf(w.after)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[name]; ok {
			continue
		}
		if err := ignoreMissing(w.iam("DeleteRolePolicy", object{"RoleName": role, "PolicyName": name})); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] == after[name] {
			continue
		}
		if err := w.iam("PutRolePolicy", object{"RoleName": role, "PolicyName": name, "PolicyDocument": after[name]}); err != nil {
			return err
		}
	}
	return w.changeAttached("ManagedPolicyArns", func(arn string) object { return object{"RoleName": role, "PolicyArn": arn} })
}

// changeAttached detaches the policies that a property lists no longer, and attaches the others.
func (w *work) changeAttached(property string, input func(item string) object) error {
	before, after := textsOf(w.before, property), textsOf(w.after, property)
	for _, item := range before {
		if slices.Contains(after, item) {
			continue
		}
		if err := ignoreMissing(w.iam("DetachRolePolicy", input(item))); err != nil {
			return err
		}
	}
	for _, item := range after {
		if slices.Contains(before, item) {
			continue
		}
		if err := w.iam("AttachRolePolicy", input(item)); err != nil {
			return err
		}
	}
	return nil
}

// deleteStackRole removes only the policies that the stack has added: a role with others cannot be deleted.
func deleteStackRole(w *work) error {
	if err := w.changeRolePolicies(); err != nil {
		return err
	}
	return w.iam("DeleteRole", object{"RoleName": w.of.physicalID})
}

func readStackRole(w *work, identifier map[string]string) (string, map[string]string, error) {
	out, err := answerOf[iam.GetRoleOutput](w, awsCall{service: "iam", action: "GetRole", input: object{"RoleName": identifier["RoleName"]}})
	if err != nil {
		return "", nil, err
	}
	return identifier["RoleName"], roleAttributes(out.Role), nil
}

var managedPolicyKind = resourceKind{
	required: []string{"PolicyDocument"}, optional: []string{"Description", "Groups", "ManagedPolicyName", "Path", "Roles", "Users"},
	createOnly: []string{"ManagedPolicyName", "Description", "Path"}, name: "ManagedPolicyName", attributes: []string{"PolicyArn", "PolicyId"},
	identifier: []string{"PolicyArn"},
	create:     createStackPolicy, update: updateStackPolicy, delete: deleteStackPolicy, read: readStackPolicy,
}

func createStackPolicy(w *work) error {
	out, err := answerOf[iam.CreatePolicyOutput](w, awsCall{service: "iam", action: "CreatePolicy", input: object{
		"PolicyName": w.named("ManagedPolicyName", longestPolicy), "Path": textOf(w.after, "Path"), "Description": textOf(w.after, "Description"),
		"PolicyDocument": documentOf(w.after, "PolicyDocument"),
	}})
	if err != nil {
		return err
	}
	w.made(aws.StringValue(out.Policy.Arn), policyAttributes(out.Policy))
	return w.changePolicyRoles()
}

func policyAttributes(p *iam.Policy) map[string]string {
	return map[string]string{"PolicyArn": aws.StringValue(p.Arn), "PolicyId": aws.StringValue(p.PolicyId)}
}

func (w *work) changePolicyRoles() error {
	return w.changeAttached("Roles", func(role string) object { return object{"RoleName": role, "PolicyArn": w.of.physicalID} })
}

func (w *work) policyVersions() ([]*iam.PolicyVersion, error) {
	out, err := answerOf[iam.ListPolicyVersionsOutput](w, awsCall{
		service: "iam", action: "ListPolicyVersions",
		input: object{"PolicyArn": w.of.physicalID},
	})
	if err != nil {
		return nil, err
	}
	return out.Versions, nil
}

// updateStackPolicy creates a version with the new document, and deletes the oldest if there are too many.
func updateStackPolicy(w *work) error {
	if w.changes("PolicyDocument") {
		versions, err := w.policyVersions()
		if err != nil {
			return err
		}
		for _, v := range slices.Backward(versions) {
			if len(versions) < mostVersions || aws.BoolValue(v.IsDefaultVersion) {
				continue
			}
			if err := w.iam("DeletePolicyVersion", object{"PolicyArn": w.of.physicalID, "VersionId": aws.StringValue(v.VersionId)}); err != nil {
				return err
			}
			break
		}
		err = w.iam("CreatePolicyVersion", object{
			"PolicyArn": w.of.physicalID, "PolicyDocument": documentOf(w.after, "PolicyDocument"),
			"SetAsDefault": "true",
		})
		if err != nil {
			return err
		}
	}
	return w.changePolicyRoles()
}

func deleteStackPolicy(w *work) error {
	if err := w.changePolicyRoles(); err != nil {
		return err
	}
	versions, err := w.policyVersions()
	if err != nil {
		return err
	}
	for _, v := range versions {
		if aws.BoolValue(v.IsDefaultVersion) {
			continue
		}
		if err := w.iam("DeletePolicyVersion", object{"PolicyArn": w.of.physicalID, "VersionId": aws.StringValue(v.VersionId)}); err != nil {
			return err
		}
	}
	return w.iam("DeletePolicy", object{"PolicyArn": w.of.physicalID})
}

func readStackPolicy(w *work, identifier map[string]string) (string, map[string]string, error) {
	out, err := answerOf[iam.GetPolicyOutput](w, awsCall{
		service: "iam", action: "GetPolicy",
		input: object{"PolicyArn": identifier["PolicyArn"]},
	})
	if err != nil {
		return "", nil, err
	}
	return identifier["PolicyArn"], policyAttributes(out.Policy), nil
}

var instanceProfileKind = resourceKind{
	required: []string{"Roles"}, optional: []string{"InstanceProfileName", "Path"}, createOnly: []string{"InstanceProfileName", "Path"},
	name: "InstanceProfileName", attributes: []string{"Arn"}, identifier: []string{"InstanceProfileName"},
	create: createStackProfile, update: updateStackProfile, delete: deleteStackProfile, read: readStackProfile,
}

func createStackProfile(w *work) error {
	name := w.named("InstanceProfileName", longestProfile)
	out, err := answerOf[iam.CreateInstanceProfileOutput](w, awsCall{service: "iam", action: "CreateInstanceProfile", input: object{
		"InstanceProfileName": name, "Path": textOf(w.after, "Path"),
	}})
	if err != nil {
		return err
	}
	w.made(name, map[string]string{"Arn": aws.StringValue(out.InstanceProfile.Arn)})
	return updateStackProfile(w)
}

func updateStackProfile(w *work) error {
	before, after := textsOf(w.before, "Roles"), textsOf(w.after, "Roles")
	for _, role := range before {
		if slices.Contains(after, role) {
			continue
		}
		err := w.iam("RemoveRoleFromInstanceProfile", object{"InstanceProfileName": w.of.physicalID, "RoleName": role})
		if err := ignoreMissing(err); err != nil {
			return err
		}
	}
	for _, role := range after {
		if slices.Contains(before, role) {
			continue
		}
		if err := w.iam("AddRoleToInstanceProfile", object{"InstanceProfileName": w.of.physicalID, "RoleName": role}); err != nil {
			return err
		}
	}
	return nil
}

func deleteStackProfile(w *work) error {
	if err := updateStackProfile(w); err != nil {
		return err
	}
	return w.iam("DeleteInstanceProfile", object{"InstanceProfileName": w.of.physicalID})
}

func readStackProfile(w *work, identifier map[string]string) (string, map[string]string, error) {
	name := identifier["InstanceProfileName"]
	out, err := answerOf[iam.GetInstanceProfileOutput](w, awsCall{
		service: "iam", action: "GetInstanceProfile",
		input: object{"InstanceProfileName": name},
	})
	if err != nil {
		return "", nil, err
	}
	return name, map[string]string{"Arn": aws.StringValue(out.InstanceProfile.Arn)}, nil
}

var oidcKind = resourceKind{
	optional: []string{"ClientIdList", "Tags", "ThumbprintList", "Url"}, createOnly: []string{"Url", "ClientIdList", "ThumbprintList"},
	attributes: []string{"Arn"}, identifier: []string{"Arn"},
	create: func(w *work) error {
		out, err := answerOf[iam.CreateOpenIDConnectProviderOutput](w, awsCall{
			service: "iam", action: "CreateOpenIDConnectProvider",
			input: object{
				"Url": textOf(w.after, "Url"), "ClientIDList": textsOf(w.after, "ClientIdList"), "ThumbprintList": textsOf(w.after, "ThumbprintList"),
				"Tags": tagList(w.tagsAfter()),
			},
		})
		if err == nil {
			w.made(aws.StringValue(out.OpenIDConnectProviderArn), map[string]string{"Arn": aws.StringValue(out.OpenIDConnectProviderArn)})
		}
		return err
	},
	update: func(*work) error { return nil }, // only its tags can differ, which the simulator does not change
	delete: func(w *work) error {
		return w.iam("DeleteOpenIDConnectProvider", object{"OpenIDConnectProviderArn": w.of.physicalID})
	},
	read: func(w *work, identifier map[string]string) (string, map[string]string, error) {
		arn := identifier["Arn"]
		return arn, map[string]string{"Arn": arn}, w.iam("GetOpenIDConnectProvider", object{"OpenIDConnectProviderArn": arn})
	},
}
