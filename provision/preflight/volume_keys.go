package preflight

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
)

// VolumeKey is a KMS key that EC2NodeClasses name for the volumes of their nodes.
type VolumeKey struct {
	// Name is its ID, ARN or alias in the EC2NodeClasses, and Classes are their names, sorted.
	Name    string
	Classes []string
	Key     Value[cloud.Key]
}

// managedVolumeKey is the alias of the key with which AWS encrypts volumes by default. Each principal of the account may use it.
const managedVolumeKey = "alias/aws/ebs"

// volumeKeys reads the keys that EC2NodeClasses name for volumes. The default key of the account is not read.
func (r *Reader) volumeKeys(ctx context.Context, o *Observed) {
	classes := map[string][]string{}
	for i := range o.Classes.Of {
		class := &o.Classes.Of[i]
		for _, device := range class.Spec.BlockDeviceMappings {
			if device.EBS == nil || device.EBS.KMSKeyID == nil || *device.EBS.KMSKeyID == managedVolumeKey {
				continue
			}
			classes[*device.EBS.KMSKeyID] = append(classes[*device.EBS.KMSKeyID], class.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		one := VolumeKey{Name: name, Classes: unique(classes[name])}
		one.Key.Of, one.Key.Err = r.AWS.Key(ctx, name)
		o.VolumeKeys = append(o.VolumeKeys, one)
	}
	slices.SortFunc(o.VolumeKeys, func(a, b VolumeKey) int { return cmp.Compare(a.Name, b.Name) })
}

// volumeKeys returns the keys of volumes that Karpenter's role may not use. EC2 accepts the launch then, and the instance
// terminates when EC2 cannot attach its volume.
func (o Observed) volumeKeys() []Finding {
	policies, limits, err := Documents(o.Grant.Of)
	if err != nil {
		return nil // missingPermissions reports it
	}
	var found []Finding
	for _, one := range o.VolumeKeys {
		found = append(found, one.usable(o, policies, limits)...)
	}
	return found
}

func (k VolumeKey) usable(o Observed, policies, limits []iam.Document) []Finding {
	of := fmt.Sprintf("KMS key %s of EC2NodeClass/%s", k.Name, strings.Join(k.Classes, ", EC2NodeClass/"))
	key := k.Key.Of
	switch {
	case k.Key.Err != nil:
		return unread(k.Key.Err)
	case key.OfAWS:
		return nil
	case key.State != "Enabled":
		return []Finding{{
			Status: Problem, Message: fmt.Sprintf("%s is %s: instances with its volumes terminate right after their launch", of, key.State),
			Fix: fmt.Sprintf("aws kms enable-key --region %s --key-id %s, or name another key", o.Region, key.ARN),
		}}
	}
	role := o.Grant.Of.RoleARN
	answer, action, err := iam.VolumeKey{ARN: key.ARN, Policy: key.Policy, Region: o.Region}.
		Allows(iam.PartitionOf(o.Region), accountOfRole(role), role, policies, limits)
	switch {
	case err != nil:
		return []Finding{{Status: Unknown, Message: fmt.Sprintf("the policy of %s: %v", of, err)}}
	case answer.Decision == iam.Unknown:
		return []Finding{{Status: Unknown, Message: fmt.Sprintf("whether %s may use the %s was not evaluated: %s", role, of, answer.Reason)}}
	case answer.Decision == iam.Allowed:
		return nil
	}
	return []Finding{{
		Status:  Problem,
		Message: fmt.Sprintf("%s may not use the %s (%s): instances with its volumes terminate right after their launch", role, of, action),
		Fix: fmt.Sprintf("add to a policy of %s, if the key's policy delegates to IAM (Principal arn:%s:iam::%s:root); otherwise to the key's policy, with the role as Principal:\n%s",
			role, iam.PartitionOf(o.Region), accountOfRole(role), indented(iam.VolumeKeyStatement(o.Region, key.ARN))),
	}}
}
