package awssim

import (
	"maps"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/iam"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

func (a *account) iamActions() map[string]action {
	return map[string]action{
		"GetRole":                       query(a, a.getRole),
		"CreateRole":                    query(a, a.createRole),
		"DeleteRole":                    query(a, a.deleteRole),
		"ListRoles":                     query(a, a.listRoles),
		"AttachRolePolicy":              query(a, a.attachRolePolicy),
		"DetachRolePolicy":              query(a, a.detachRolePolicy),
		"ListAttachedRolePolicies":      query(a, a.listAttachedRolePolicies),
		"GetInstanceProfile":            query(a, a.getInstanceProfile),
		"CreateInstanceProfile":         query(a, a.createInstanceProfile),
		"DeleteInstanceProfile":         query(a, a.deleteInstanceProfile),
		"ListInstanceProfiles":          query(a, a.listInstanceProfiles),
		"ListInstanceProfilesForRole":   query(a, a.listInstanceProfilesForRole),
		"AddRoleToInstanceProfile":      query(a, a.addRoleToInstanceProfile),
		"RemoveRoleFromInstanceProfile": query(a, a.removeRoleFromInstanceProfile),
		"TagInstanceProfile":            query(a, a.tagInstanceProfile),
		"UntagInstanceProfile":          query(a, a.untagInstanceProfile),
		"ListInstanceProfileTags":       query(a, a.listInstanceProfileTags),
	}
}

func noSuchEntity(format string, args ...any) error {
	return wire.Errorf("NoSuchEntity", format, args...).WithStatus(http.StatusNotFound)
}

func entityExists(format string, args ...any) error {
	return wire.Errorf("EntityAlreadyExists", format, args...).WithStatus(http.StatusConflict)
}

func deleteConflict(format string, args ...any) error {
	return wire.Errorf("DeleteConflict", format, args...).WithStatus(http.StatusConflict)
}

func iamTags(m map[string]string) []*iam.Tag {
	tags := make([]*iam.Tag, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		tags = append(tags, &iam.Tag{Key: aws.String(key), Value: aws.String(m[key])})
	}
	return tags
}

func iamTagMap(tags []*iam.Tag) map[string]string {
	m := map[string]string{}
	for _, t := range tags {
		m[aws.StringValue(t.Key)] = aws.StringValue(t.Value)
	}
	return m
}
