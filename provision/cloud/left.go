package cloud

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// Kind is a kind of AWS resource that a cluster's nodes use.
type Kind string

// The kinds, in the order of their deletion.
const (
	KindInstance         Kind = "Instance"
	KindVolume           Kind = "Volume"
	KindNetworkInterface Kind = "NetworkInterface"
	KindLaunchTemplate   Kind = "LaunchTemplate"
	KindInstanceProfile  Kind = "InstanceProfile"
)

// Further tags, in addition to those with which Karpenter finds its instances.
const (
	// nameTag contains the cluster's name since v1 of Karpenter; before, templateTag did, on launch templates
	// (karpenter-provider-aws pkg/apis/v1/labels.go, EKSClusterNameTagKey; v0.37
	// pkg/providers/launchtemplate/launchtemplate.go, karpenterManagedTagKey).
	nameTag, templateTag = "eks:eks-cluster-name", "karpenter.k8s.aws/cluster"
	// nodeClassTag contains the EC2NodeClass.
	nodeClassTag = "karpenter.k8s.aws/ec2nodeclass"
	// cniTag contains the cluster's name, on interfaces that the VPC CNI plugin has added to a node (amazon-vpc-cni-k8s
	// pkg/awsutils/awsutils.go, eniClusterTagKey).
	cniTag = "cluster.k8s.amazonaws.com/name"
)

// templateNames matches the names of Karpenter's launch templates (LaunchTemplateNamePrefix).
const templateNames = "karpenter.k8s.aws/*"

// Resource is an AWS resource of a cluster's nodes.
type Resource struct {
	Kind Kind
	// ID is the ID in AWS, or the name of an instance profile.
	ID string
	// Name of a launch template, or path of an instance profile.
	Name string
	// State of an instance, a volume or an interface, in EC2's terms.
	State string
	// Zone of an instance, a volume or an interface.
	Zone string
	// Instance is the one to which a volume or an interface is attached. Alive reports whether EC2 has not terminated
	// it.
	Instance string
	Alive    bool
	// OfService reports whether an AWS service manages the interface, for example a load balancer or the control plane.
	OfService bool
	Tags      map[string]string
	// Created is when a volume, a launch template or an instance profile was created.
	Created time.Time
}

// Answer is AWS's response about one kind.
type Answer struct {
	Kind Kind
	// Resources are those that are not terminated, sorted by ID.
	Resources []Resource
	// Elsewhere are the other regions in which a cluster of this name has instance profiles.
	Elsewhere []string
	// Err is why the response is incomplete: a resource that it does not contain may exist.
	Err error
}

// Left queries EC2 and IAM for the resources of a cluster's nodes, one query for each kind: by tag and, for instances,
// also by the Query's ProviderIDs. It includes all NodePools.
func (c *Client) Left(ctx context.Context, q Query) []Answer {
	var elsewhere []string
	asks := []struct {
		kind Kind
		ask  func(context.Context, Query, map[string]Resource) error
	}{
		{KindInstance, c.instancesLeft},
		{KindVolume, c.volumesLeft},
		{KindNetworkInterface, c.interfacesLeft},
		{KindLaunchTemplate, c.templatesLeft},
		{KindInstanceProfile, func(ctx context.Context, q Query, found map[string]Resource) (err error) {
			elsewhere, err = c.profilesLeft(ctx, q, found)
			return err
		}},
	}
	answers := make([]Answer, 0, len(asks))
	for _, a := range asks {
		answer := c.answer(ctx, a.kind, q, a.ask)
		if a.kind == KindInstanceProfile {
			answer.Elsewhere = elsewhere
		}
		answers = append(answers, answer)
	}
	return answers
}

// answer makes one query.
func (c *Client) answer(ctx context.Context, kind Kind, q Query, ask func(context.Context, Query, map[string]Resource) error) Answer {
	found := map[string]Resource{}
	bounded, stop := context.WithTimeout(ctx, c.timeout)
	defer stop()
	answer := Answer{Kind: kind, Err: ask(bounded, q, found)}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		answer.Resources = append(answer.Resources, found[id])
	}
	return answer
}

func (c *Client) instancesLeft(ctx context.Context, q Query, found map[string]Resource) error {
	instances, err := c.tagged(ctx, Query{Cluster: q.Cluster, AllPools: true, ProviderIDs: q.ProviderIDs})
	named := map[string]Instance{}
	if err == nil {
		err = c.list(ctx, named, filter("tag:"+nameTag, q.Cluster), filter("tag-key", nodePoolTag, nodeClassTag),
			filter("instance-state-name", living()...))
	}
	for _, i := range slices.Concat(instances, slices.Collect(maps.Values(named))) {
		if !i.Gone() {
			found[i.ID] = Resource{Kind: KindInstance, ID: i.ID, State: i.State, Zone: i.Zone, Tags: i.Tags}
		}
	}
	return err
}

func (c *Client) volumesLeft(ctx context.Context, q Query, found map[string]Resource) error {
	for _, one := range ofCluster(q.Cluster) {
		pages := ec2.NewDescribeVolumesPaginator(c.ec2,
			&ec2.DescribeVolumesInput{Filters: []ec2types.Filter{one}, MaxResults: aws.Int32(pageSize)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return c.named("ec2:DescribeVolumes", err)
			}
			for i := range page.Volumes {
				v := volumeOf(&page.Volumes[i])
				found[v.ID] = v
			}
		}
	}
	return c.markAlive(ctx, found)
}

func volumeOf(v *ec2types.Volume) Resource {
	volume := Resource{
		Kind: KindVolume, ID: aws.ToString(v.VolumeId), State: string(v.State), Zone: aws.ToString(v.AvailabilityZone), Tags: tagsOf(v.Tags),
		Created: aws.ToTime(v.CreateTime),
	}
	for _, attachment := range v.Attachments {
		volume.Instance = aws.ToString(attachment.InstanceId)
	}
	return volume
}

func (c *Client) interfacesLeft(ctx context.Context, q Query, found map[string]Resource) error {
	for _, one := range append(ofCluster(q.Cluster), filter("tag:"+cniTag, q.Cluster)) {
		pages := ec2.NewDescribeNetworkInterfacesPaginator(c.ec2,
			&ec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{one}, MaxResults: aws.Int32(pageSize)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return c.named("ec2:DescribeNetworkInterfaces", err)
			}
			for i := range page.NetworkInterfaces {
				n := interfaceOf(&page.NetworkInterfaces[i])
				found[n.ID] = n
			}
		}
	}
	return c.markAlive(ctx, found)
}

func interfaceOf(n *ec2types.NetworkInterface) Resource {
	found := Resource{
		Kind: KindNetworkInterface, ID: aws.ToString(n.NetworkInterfaceId), State: string(n.Status), Zone: aws.ToString(n.AvailabilityZone),
		OfService: aws.ToBool(n.RequesterManaged), Tags: tagsOf(n.TagSet),
	}
	if n.Attachment != nil {
		found.Instance = aws.ToString(n.Attachment.InstanceId)
		// The control plane's interfaces are attached to instances in an account of EKS.
		owner := aws.ToString(n.Attachment.InstanceOwnerId)
		found.OfService = found.OfService || owner != "" && owner != aws.ToString(n.OwnerId)
	}
	return found
}

// markAlive queries which instances that the resources are attached to are not terminated.
func (c *Client) markAlive(ctx context.Context, found map[string]Resource) error {
	var ids []string
	for _, r := range found {
		if r.Instance != "" {
			ids = append(ids, r.Instance)
		}
	}
	instances := map[string]Instance{}
	for some := range slices.Chunk(distinct(ids), filterValues) {
		if err := each(some, func(ids []string) error { return c.list(ctx, instances, filter("instance-id", ids...)) }); err != nil {
			return err
		}
	}
	for id, r := range found {
		i, shown := instances[r.Instance]
		r.Alive = shown && !i.Gone()
		found[id] = r
	}
	return nil
}

// templatesPage is the maximum page size for launch templates in EC2.
const templatesPage = 200

func (c *Client) templatesLeft(ctx context.Context, q Query, found map[string]Resource) error {
	for _, filters := range [][]ec2types.Filter{
		{filter("tag:"+nameTag, q.Cluster), filter("launch-template-name", templateNames)},
		{filter("tag:"+templateTag, q.Cluster)},
	} {
		pages := ec2.NewDescribeLaunchTemplatesPaginator(c.ec2,
			&ec2.DescribeLaunchTemplatesInput{Filters: filters, MaxResults: aws.Int32(templatesPage)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return c.named("ec2:DescribeLaunchTemplates", err)
			}
			for i := range page.LaunchTemplates {
				t := &page.LaunchTemplates[i]
				id := aws.ToString(t.LaunchTemplateId)
				found[id] = Resource{
					Kind: KindLaunchTemplate, ID: id, Name: aws.ToString(t.LaunchTemplateName), Tags: tagsOf(t.Tags), Created: aws.ToTime(t.CreateTime),
				}
			}
		}
	}
	return nil
}

// ofCluster returns filters, each of which matches some of the resources that Karpenter and the EBS CSI driver tag.
func ofCluster(cluster string) []ec2types.Filter {
	return []ec2types.Filter{filter("tag:"+clusterTagPrefix+cluster, clusterTagValue), filter("tag:"+nameTag, cluster)}
}

func tagsOf(list []ec2types.Tag) map[string]string {
	tags := map[string]string{}
	for _, tag := range list {
		tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	return tags
}

const (
	// pageSize is how many instances are requested per page, EC2's maximum, and smallestPage the minimum to which it
	// shrinks if a page takes too long.
	pageSize, smallestPage = 1000, 50
	// maxListingAge is the maximum age of the first page of a response: an older state is outdated.
	maxListingAge = 10 * time.Minute
)

// listing is the part of a multi-page response that was read.
type listing struct {
	found map[string]Instance
	// token of the next page; nil before the first.
	token *string
	began time.Time
}

// listings are the responses that were not completely read in time, by their filters.
type listings struct {
	mu       sync.Mutex
	open     map[string]*listing
	pageSize int32
}

// take removes and returns the open listing of a key, so that no other query continues it, or returns a new one.
func (l *listings) take(key string, now time.Time) *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.open, func(_ string, open *listing) bool {
		return now.Before(open.began) || now.Sub(open.began) > maxListingAge
	})
	if open, ok := l.open[key]; ok {
		delete(l.open, key)
		return open
	}
	return &listing{found: map[string]Instance{}, began: now}
}

// keep stores a listing, so that the next query continues it.
func (l *listings) keep(key string, open *listing) {
	if open.token == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[string]*listing{}
	}
	l.open[key] = open
}

func (l *listings) size() int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pageSize == 0 {
		l.pageSize = pageSize
	}
	return l.pageSize
}

// shrink makes pages smaller from now on.
func (l *listings) shrink() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pageSize = max(smallestPage, l.pageSize/4)
}

// list reads all pages of a response, possibly in several queries: pages that were read when ctx expires, or AWS fails,
// are kept, and the next call continues after them. It adds nothing to into before the last page is read.
func (c *Client) list(ctx context.Context, into map[string]Instance, filters ...ec2types.Filter) error {
	key := keyOf(filters)
	l := c.listings.take(key, c.now())
	resumed := l.token != nil
	for pages := 0; ; pages++ {
		err := c.readPage(ctx, l, filters)
		if err != nil && resumed && pages == 0 && refusesToken(err) {
			l = &listing{found: map[string]Instance{}, began: c.now()}
			err = c.readPage(ctx, l, filters)
		}
		if err != nil {
			c.listings.keep(key, l)
			return c.unfinished(ctx, l, pages, err)
		}
		if aws.ToString(l.token) == "" {
			maps.Copy(into, l.found)
			return nil
		}
	}
}

// unfinished returns why a response was not completely read.
func (c *Client) unfinished(ctx context.Context, l *listing, pages int, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	if pages == 0 {
		c.listings.shrink() // one page has taken all the available time
	}
	if l.token == nil {
		return err
	}
	return &PartialError{Action: "ec2:DescribeInstances", Err: err}
}

func (c *Client) readPage(ctx context.Context, l *listing, filters []ec2types.Filter) error {
	page, err := c.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{
		Filters: filters, NextToken: l.token, MaxResults: aws.Int32(c.listings.size()),
	})
	if err != nil {
		return c.named("ec2:DescribeInstances", err)
	}
	add(l.found, page.Reservations)
	l.token = page.NextToken
	return nil
}

// refusesToken reports whether EC2 rejects a token: it has expired, or belongs to another query.
func refusesToken(err error) bool {
	var answer *AnswerError
	return errors.As(err, &answer) && strings.Contains(answer.Code+answer.Detail, "oken")
}

// keyOf returns the same key for queries with the same filters.
func keyOf(filters []ec2types.Filter) string {
	var key strings.Builder
	for _, f := range filters {
		key.WriteString(aws.ToString(f.Name) + "=" + strings.Join(f.Values, ",") + "\n")
	}
	return key.String()
}

func add(found map[string]Instance, reservations []ec2types.Reservation) {
	for _, reservation := range reservations {
		for i := range reservation.Instances {
			instance := instanceOf(&reservation.Instances[i])
			found[instance.ID] = instance
		}
	}
}

// profilesPage is the maximum page size in IAM.
const profilesPage = 1000

// profilesLeft lists the instance profiles of the account. The cluster's are those below /karpenter/<region>/<cluster>/
// (karpenter-provider-aws pkg/providers/instanceprofile, FormatPath) and, from older releases, those named
// <cluster>_<number> whose tags confirm it (LegacyInstanceProfileName). IAM has no regions, so a cluster of this name
// in another region has such profiles, too: elsewhere are these regions. A list contains no tags.
func (c *Client) profilesLeft(ctx context.Context, q Query, found map[string]Resource) (elsewhere []string, err error) {
	path := c.profilePath(q.Cluster)
	legacy := regexp.MustCompile("^" + regexp.QuoteMeta(q.Cluster) + `_\d+$`)
	all, err := c.listProfiles(ctx, &iam.ListInstanceProfilesInput{})
	if err != nil {
		return nil, err
	}
	for _, profile := range all {
		if strings.HasPrefix(profile.Name, path) {
			found[profile.ID] = profile
			continue
		}
		if region := regionOf(profile.Name, q.Cluster); region != "" {
			elsewhere = append(elsewhere, region)
		}
		if strings.HasPrefix(profile.Name, "/karpenter/") || !legacy.MatchString(profile.ID) {
			continue
		}
		whole, err := c.profile(ctx, profile.ID)
		if err != nil {
			return nil, err
		}
		profile.Tags = profileTags(whole)
		if ofRegion(profile.Tags, q.Cluster, c.region) {
			found[profile.ID] = profile
		}
	}
	return distinct(elsewhere), nil
}

// listProfiles lists instance profiles, page by page: their names (ID) and paths (Name).
func (c *Client) listProfiles(ctx context.Context, in *iam.ListInstanceProfilesInput) (found []Resource, err error) {
	in.MaxItems = aws.Int32(profilesPage)
	pages := iam.NewListInstanceProfilesPaginator(c.iam, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, c.named("iam:ListInstanceProfiles", err)
		}
		for _, p := range page.InstanceProfiles {
			found = append(found, Resource{
				Kind: KindInstanceProfile, ID: aws.ToString(p.InstanceProfileName), Name: aws.ToString(p.Path), Created: aws.ToTime(p.CreateDate),
			})
		}
	}
	return found, nil
}

// profilePath returns the path of a cluster's instance profiles; below it are folders named after the UID of the
// EC2NodeClass.
func (c *Client) profilePath(cluster string) string {
	return "/karpenter/" + c.region + "/" + cluster + "/"
}

// profilesBelow finds those of the cluster by their path, without those of older releases.
func (c *Client) profilesBelow(ctx context.Context, q Query, found map[string]Resource) error {
	below, err := c.listProfiles(ctx, &iam.ListInstanceProfilesInput{PathPrefix: aws.String(c.profilePath(q.Cluster))})
	for _, profile := range below {
		found[profile.ID] = profile
	}
	return err
}

// regionOf returns the region in the path of a cluster's instance profile; empty if it does not belong to this cluster.
func regionOf(path, cluster string) string {
	parts := strings.Split(path, "/")
	if len(parts) < 5 || parts[1] != "karpenter" || parts[3] != cluster {
		return ""
	}
	return parts[2]
}

// profile returns an instance profile with its tags and roles; nil if it no longer exists.
func (c *Client) profile(ctx context.Context, name string) (*iamtypes.InstanceProfile, error) {
	out, err := c.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(name)})
	var missing *iamtypes.NoSuchEntityException
	switch {
	case errors.As(err, &missing):
		return nil, nil
	case err != nil:
		return nil, c.named("iam:GetInstanceProfile", err)
	}
	return out.InstanceProfile, nil
}

// profileTags returns the tags of an instance profile; none if it is nil.
func profileTags(profile *iamtypes.InstanceProfile) map[string]string {
	tags := map[string]string{}
	if profile != nil {
		for _, tag := range profile.Tags {
			tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
		}
	}
	return tags
}

// regionTag contains the region, on instance profiles.
const regionTag = "topology.kubernetes.io/region"

// ofRegion reports whether Karpenter of a cluster in a region has set these tags (EC2NodeClass.InstanceProfileTags).
func ofRegion(tags map[string]string, cluster, region string) bool {
	at, has := tags[regionTag]
	return tags[clusterTagPrefix+cluster] == clusterTagValue && (!has || at == region)
}

// AttachedVolumes returns a cluster's attached EBS volumes, by the tags of Karpenter and of the EBS CSI driver, sorted
// by ID, each with whether EC2 has terminated its instance. The result is for reports only, and the query counts
// against the budget of selectors.
func (c *Client) AttachedVolumes(ctx context.Context, cluster string) ([]Resource, error) {
	if err := c.resolver.Budget().Take(c.now(), "ec2:DescribeVolumes", 2*len(ofCluster(cluster))); err != nil {
		return nil, err
	}
	answer := c.Volumes(ctx, cluster)
	if answer.Err != nil {
		return nil, answer.Err
	}
	return slices.DeleteFunc(answer.Resources, func(r Resource) bool { return r.Instance == "" }), nil
}

// Volumes returns a cluster's EBS volumes, attached or not, as AttachedVolumes does. It takes two requests, and one for each
// 200 instances that have some.
func (c *Client) Volumes(ctx context.Context, cluster string) Answer {
	return c.answer(ctx, KindVolume, Query{Cluster: cluster}, c.volumesLeft)
}

// leftBehindQueries is how many requests LeftBehind makes if each list has one page.
const leftBehindQueries = 8

// LeftBehind queries what a cluster's nodes may have left in addition to instances and volumes: interfaces, launch
// templates and, if profiles is true, instance profiles, the latter only below the cluster's path. Leave profiles out
// in a private network, in which IAM has no endpoint, and if the EC2NodeClasses name their profiles, because then the
// cluster has none. The result is for reports only, and the query counts against the budget of selectors: it is an
// error if that is used up.
func (c *Client) LeftBehind(ctx context.Context, cluster string, profiles bool) ([]Answer, error) {
	if err := c.resolver.Budget().Take(c.now(), "ec2:DescribeNetworkInterfaces", leftBehindQueries); err != nil {
		return nil, err
	}
	q := Query{Cluster: cluster}
	answers := []Answer{c.answer(ctx, KindNetworkInterface, q, c.interfacesLeft), c.answer(ctx, KindLaunchTemplate, q, c.templatesLeft)}
	if profiles {
		answers = append(answers, c.answer(ctx, KindInstanceProfile, q, c.profilesBelow))
	}
	return answers, nil
}
