package awssim

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// maxTags is EC2's limit for one resource; AWS's own tags do not count.
const maxTags = 50

// reserved reports whether a tag is AWS's own.
func reserved(key string) bool { return strings.HasPrefix(strings.ToLower(key), "aws:") }

func (a *account) tagActions() map[string]action {
	return map[string]action{
		"CreateTags":   query(a, a.createTags),
		"DeleteTags":   query(a, a.deleteTags),
		"DescribeTags": query(a, a.describeTags),
	}
}

// kindOfResource is a kind of EC2 resource that can be tagged.
type kindOfResource struct {
	prefix, name, notFound string
	find                   func(id string) (*resource, bool)
	each                   func(yield func(*resource))
}

// kind describes the resources of one of the account's maps.
func kind[T any](prefix, name, notFound string, all map[string]T, common func(T) *resource) kindOfResource {
	return kindOfResource{
		prefix: prefix, name: name, notFound: notFound,
		find: func(id string) (*resource, bool) {
			t, ok := all[id]
			if !ok {
				return nil, false
			}
			return common(t), true
		},
		each: func(yield func(*resource)) {
			for _, t := range all {
				yield(common(t))
			}
		},
	}
}

func (a *account) kinds() []kindOfResource {
	return []kindOfResource{
		kind("i-", "instance", "InvalidInstanceID.NotFound", a.instances, func(i *instance) *resource { return &i.resource }),
		kind("vol-", "volume", "InvalidVolume.NotFound", a.volumes, func(v *volume) *resource { return &v.resource }),
		kind("eni-", "network-interface", "InvalidNetworkInterfaceID.NotFound", a.interfaces, func(n *networkInterface) *resource { return &n.resource }),
		kind("lt-", "launch-template", "InvalidLaunchTemplateId.NotFound", a.templates, func(t *launchTemplate) *resource { return &t.resource }),
		kind("fleet-", "fleet", "InvalidFleetId.NotFound", a.fleets, func(f *fleet) *resource { return &f.resource }),
		kind("subnet-", "subnet", "InvalidSubnetID.NotFound", a.subnets, func(s *subnet) *resource { return &s.resource }),
		kind("sg-", "security-group", "InvalidGroup.NotFound", a.groups, func(g *securityGroup) *resource { return &g.resource }),
		kind("vpc-", "vpc", "InvalidVpcID.NotFound", a.vpcs, func(v *vpc) *resource { return &v.resource }),
		kind("ami-", "image", "InvalidAMIID.NotFound", a.images, func(i *image) *resource { return &i.resource }),
	}
}

// taggable finds an EC2 resource of any kind by its ID.
func (a *account) taggable(id string) (*resource, error) {
	for _, k := range a.kinds() {
		if !strings.HasPrefix(id, k.prefix) {
			continue
		}
		if r, ok := k.find(id); ok && r.visible(a.now) {
			return r, nil
		}
		return nil, wire.Errorf(k.notFound, "The %s ID '%s' does not exist", k.name, id)
	}
	return nil, wire.Errorf("InvalidID", "The ID '%s' is not valid", id)
}

func (a *account) createTags(_ *request, in *ec2.CreateTagsInput) (*ec2.CreateTagsOutput, error) {
	added := tagMap(in.Tags)
	for key := range added {
		if reserved(key) {
			return nil, wire.Errorf("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
		}
	}
	err := a.changeTags(in.Resources, func(r *resource) (map[string]string, error) {
		tags := maps.Clone(r.Tags)
		maps.Copy(tags, added)
		own := 0
		for key := range tags {
			if !reserved(key) {
				own++
			}
		}
		if own > maxTags {
			return nil, wire.Errorf("TagLimitExceeded", "More than %d tags on %s", maxTags, r.ID)
		}
		return tags, nil
	})
	return &ec2.CreateTagsOutput{}, err
}

// deleteTags removes tags; with a value only if the tag has that value.
func (a *account) deleteTags(_ *request, in *ec2.DeleteTagsInput) (*ec2.DeleteTagsOutput, error) {
	err := a.changeTags(in.Resources, func(r *resource) (map[string]string, error) {
		tags := maps.Clone(r.Tags)
		for _, t := range in.Tags {
			if t.Value == nil || *t.Value == tags[aws.StringValue(t.Key)] {
				delete(tags, aws.StringValue(t.Key))
			}
		}
		return tags, nil
	})
	return &ec2.DeleteTagsOutput{}, err
}

// Tag tags a resource, as a user of the console would.
func (s *Simulator) Tag(id, key, value string) error {
	var err error
	s.locked(func(a *account) {
		_, err = a.createTags(nil, &ec2.CreateTagsInput{Resources: []*string{&id}, Tags: []*ec2.Tag{{Key: &key, Value: &value}}})
	})
	return err
}

// Untag removes a tag from a resource, likewise.
func (s *Simulator) Untag(id, key string) error {
	var err error
	s.locked(func(a *account) {
		_, err = a.deleteTags(nil, &ec2.DeleteTagsInput{Resources: []*string{&id}, Tags: []*ec2.Tag{{Key: &key}}})
	})
	return err
}

// changeTags changes the tags of all resources, or of none if one of them cannot have them.
func (a *account) changeTags(ids []*string, change func(*resource) (map[string]string, error)) error {
	changed := map[*resource]map[string]string{}
	for _, id := range ids {
		r, err := a.taggable(aws.StringValue(id))
		if err != nil {
			return err
		}
		if changed[r], err = change(r); err != nil {
			return err
		}
	}
	for r, tags := range changed {
		r.Tags = tags
		if i, ok := a.instances[r.ID]; ok {
			a.remember(i)
		}
	}
	return nil
}

// taggedResource is one tag of one resource, as DescribeTags lists them.
type taggedResource struct{ kind, id, key, value string }

// tags implements tagged; tag:<key> is a filter of DescribeTags too.
func (t taggedResource) tags() map[string]string { return map[string]string{t.key: t.value} }

func (a *account) describeTags(r *request, in *ec2.DescribeTagsInput) (*ec2.DescribeTagsOutput, error) {
	matches, err := selector(in.Filters, attributes[taggedResource]{
		"resource-id":   one(func(t taggedResource) string { return t.id }),
		"resource-type": one(func(t taggedResource) string { return t.kind }),
		"key":           one(func(t taggedResource) string { return t.key }),
		"value":         one(func(t taggedResource) string { return t.value }),
	})
	if err != nil {
		return nil, err
	}
	var all []taggedResource
	for _, k := range a.kinds() {
		k.each(func(r *resource) {
			for key, value := range r.Tags {
				if t := (taggedResource{k.name, r.ID, key, value}); r.visible(a.now) && matches(t) {
					all = append(all, t)
				}
			}
		})
	}
	all, next, err := ec2Page(a, r, all, func(t taggedResource) string { return t.id + "/" + t.key }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeTagsOutput{NextToken: next, Tags: []*ec2.TagDescription{}}
	for _, t := range all {
		out.Tags = append(out.Tags, &ec2.TagDescription{
			ResourceId: aws.String(t.id), ResourceType: aws.String(t.kind), Key: aws.String(t.key), Value: aws.String(t.value),
		})
	}
	return out, nil
}

func tagMap(tags []*ec2.Tag) map[string]string {
	m := map[string]string{}
	for _, t := range tags {
		m[aws.StringValue(t.Key)] = aws.StringValue(t.Value)
	}
	return m
}

// specTags returns the tags of specifications for one type of resource.
func specTags(specifications []*ec2.TagSpecification, resourceType string) map[string]string {
	m := map[string]string{}
	for _, s := range specifications {
		if aws.StringValue(s.ResourceType) == resourceType {
			maps.Copy(m, tagMap(s.Tags))
		}
	}
	return m
}

func ec2Tags(m map[string]string) []*ec2.Tag {
	tags := make([]*ec2.Tag, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		tags = append(tags, &ec2.Tag{Key: aws.String(key), Value: aws.String(m[key])})
	}
	return tags
}
