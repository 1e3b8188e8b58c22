package awssim

import (
	"cmp"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/iam"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// instanceProfile contains at most one role.
type instanceProfile struct {
	resource
	name, path, arn string
	role            *role
	created         time.Time
}

// profileName returns the name of the profile with a name or an ARN.
func profileName(name, arn *string) string {
	if name != nil {
		return *name
	}
	s := aws.StringValue(arn)
	return s[strings.LastIndex(s, "/")+1:]
}

func (a *account) profileARN(name string) string {
	if p, ok := a.profiles[name]; ok {
		return p.arn
	}
	return ""
}

func (a *account) findProfile(name *string) (*instanceProfile, error) {
	if p, ok := a.profiles[aws.StringValue(name)]; ok && p.visible(a.now) {
		return p, nil
	}
	return nil, noSuchEntity("Instance Profile %s cannot be found.", aws.StringValue(name))
}

func (a *account) getInstanceProfile(_ *request, in *iam.GetInstanceProfileInput) (*iam.GetInstanceProfileOutput, error) {
	p, err := a.findProfile(in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	return &iam.GetInstanceProfileOutput{InstanceProfile: p.describe()}, nil
}

func (a *account) createInstanceProfile(r *request, in *iam.CreateInstanceProfileInput) (*iam.CreateInstanceProfileOutput, error) {
	name, path := aws.StringValue(in.InstanceProfileName), cmp.Or(aws.StringValue(in.Path), "/")
	if err := tooLong("instanceProfileName", name, longestProfile); err != nil {
		return nil, err
	}
	if _, ok := a.profiles[name]; ok {
		return nil, entityExists("Instance Profile %s already exists.", name)
	}
	p := &instanceProfile{
		resource: a.newResource("AIPA", iamTagMap(in.Tags), r.hide()), name: name, path: path,
		arn: a.iamARN("instance-profile" + path + name), created: a.now,
	}
	p.ID = strings.ToUpper(p.ID)
	a.profiles[name] = p
	return &iam.CreateInstanceProfileOutput{InstanceProfile: p.describe()}, nil
}

func (a *account) deleteInstanceProfile(_ *request, in *iam.DeleteInstanceProfileInput) (*iam.DeleteInstanceProfileOutput, error) {
	p, err := a.findProfile(in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	if p.role != nil {
		return nil, deleteConflict("Cannot delete entity, must remove roles from instance profile first.")
	}
	delete(a.profiles, p.name)
	return &iam.DeleteInstanceProfileOutput{}, nil
}

func (a *account) listInstanceProfiles(_ *request, in *iam.ListInstanceProfilesInput) (*iam.ListInstanceProfilesOutput, error) {
	prefix := cmp.Or(aws.StringValue(in.PathPrefix), "/")
	list, next, err := a.profilePage(in.MaxItems, in.Marker, func(p *instanceProfile) bool { return strings.HasPrefix(p.path, prefix) })
	if err != nil {
		return nil, err
	}
	return &iam.ListInstanceProfilesOutput{InstanceProfiles: list, IsTruncated: aws.Bool(next != nil), Marker: next}, nil
}

func (a *account) listInstanceProfilesForRole(_ *request, in *iam.ListInstanceProfilesForRoleInput) (*iam.ListInstanceProfilesForRoleOutput, error) {
	r, err := a.findRole(in.RoleName)
	if err != nil {
		return nil, err
	}
	list, next, err := a.profilePage(in.MaxItems, in.Marker, func(p *instanceProfile) bool { return p.role == r })
	if err != nil {
		return nil, err
	}
	return &iam.ListInstanceProfilesForRoleOutput{InstanceProfiles: list, IsTruncated: aws.Bool(next != nil), Marker: next}, nil
}

// profilesPerPage is IAM's default page size
// (https://docs.aws.amazon.com/IAM/latest/APIReference/API_ListInstanceProfiles.html).
const profilesPerPage = 100

// profilePage lists profiles, without their tags, like IAM ("this operation does not return tags, even though they are
// an attribute of the returned object").
func (a *account) profilePage(limit *int64, marker *string, matches func(*instanceProfile) bool) ([]*iam.InstanceProfile, *string, error) {
	var selected []*instanceProfile
	for _, p := range a.profiles {
		if p.visible(a.now) && matches(p) {
			selected = append(selected, p)
		}
	}
	if limit == nil {
		limit = aws.Int64(profilesPerPage)
	}
	selected, next, err := page(selected, func(p *instanceProfile) string { return p.name }, limit, marker)
	if err != nil {
		return nil, nil, err
	}
	list := []*iam.InstanceProfile{}
	for _, p := range selected {
		described := p.describe()
		described.Tags = nil
		list = append(list, described)
	}
	return list, next, nil
}

func (a *account) addRoleToInstanceProfile(_ *request, in *iam.AddRoleToInstanceProfileInput) (*iam.AddRoleToInstanceProfileOutput, error) {
	p, err := a.findProfile(in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	r, err := a.findRole(in.RoleName)
	if err != nil {
		return nil, err
	}
	if p.role != nil {
		return nil, wire.Errorf("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1").WithStatus(http.StatusConflict)
	}
	p.role = r
	return &iam.AddRoleToInstanceProfileOutput{}, nil
}

func (a *account) removeRoleFromInstanceProfile(_ *request, in *iam.RemoveRoleFromInstanceProfileInput) (*iam.RemoveRoleFromInstanceProfileOutput, error) {
	p, err := a.findProfile(in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	if p.role == nil || p.role.name != aws.StringValue(in.RoleName) {
		return nil, noSuchEntity("The role with name %s is not in the instance profile %s.", aws.StringValue(in.RoleName), p.name)
	}
	p.role = nil
	return &iam.RemoveRoleFromInstanceProfileOutput{}, nil
}

func (a *account) tagInstanceProfile(_ *request, in *iam.TagInstanceProfileInput) (*iam.TagInstanceProfileOutput, error) {
	p, err := a.findProfile(in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	maps.Copy(p.Tags, iamTagMap(in.Tags))
	return &iam.TagInstanceProfileOutput{}, nil
}

func (a *account) untagInstanceProfile(_ *request, in *iam.UntagInstanceProfileInput) (*iam.UntagInstanceProfileOutput, error) {
	p, err := a.findProfile(in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	for _, key := range in.TagKeys {
		delete(p.Tags, aws.StringValue(key))
	}
	return &iam.UntagInstanceProfileOutput{}, nil
}

func (a *account) listInstanceProfileTags(_ *request, in *iam.ListInstanceProfileTagsInput) (*iam.ListInstanceProfileTagsOutput, error) {
	p, err := a.findProfile(in.InstanceProfileName)
	if err != nil {
		return nil, err
	}
	return &iam.ListInstanceProfileTagsOutput{Tags: iamTags(p.Tags), IsTruncated: aws.Bool(false)}, nil
}

func (p *instanceProfile) describe() *iam.InstanceProfile {
	d := &iam.InstanceProfile{
		InstanceProfileId: aws.String(p.ID), InstanceProfileName: aws.String(p.name), Path: aws.String(p.path), Arn: aws.String(p.arn),
		CreateDate: aws.Time(p.created), Roles: []*iam.Role{}, Tags: iamTags(p.Tags),
	}
	if p.role != nil {
		d.Roles = append(d.Roles, p.role.describe())
	}
	return d
}
