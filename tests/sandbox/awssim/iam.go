package awssim

import (
	"maps"
	"net/http"
	"slices"
	"unicode"

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
		"UpdateRole":                    query(a, a.updateRole),
		"TagRole":                       query(a, a.tagRole),
		"UntagRole":                     query(a, a.untagRole),
		"ListRoleTags":                  query(a, a.listRoleTags),
		"CreateServiceLinkedRole":       query(a, a.createServiceLinkedRole),
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
		"SimulatePrincipalPolicy":       query(a, a.simulatePrincipalPolicy),
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

func limitExceeded(format string, args ...any) error {
	return wire.Errorf("LimitExceeded", format, args...).WithStatus(http.StatusConflict)
}

// The quotas of IAM: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
const (
	longestRole    = 64
	longestPolicy  = 128
	longestProfile = 128
	largestTrust   = 2048
	largestPolicy  = 6144
	largestInline  = 10240 // all inline policies of a role
	mostPolicies   = 10    // managed policies that a role has attached
	mostVersions   = 5     // versions of a managed policy
)

// tooLong returns the error for a name that is too long; nil if it is not.
func tooLong(field, name string, most int) error {
	if len(name) <= most {
		return nil
	}
	return wire.Errorf("ValidationError", "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must have length less than or equal to %d", name, field, most)
}

// tooLarge returns the error for a policy that is too large; nil if it is not. IAM does not count whitespace.
func tooLarge(quota, text string, most int) error {
	if size(text) <= most {
		return nil
	}
	return limitExceeded("Cannot exceed quota for %s: %d", quota, most)
}

// size returns the number of characters of a policy that IAM counts.
func size(text string) int {
	n := 0
	for _, c := range text {
		if !unicode.IsSpace(c) {
			n++
		}
	}
	return n
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
