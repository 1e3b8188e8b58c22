package awssim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// FargateProfile is a Fargate profile of a cluster. The simulator only describes it.
type FargateProfile struct {
	Name      string
	Selectors []FargateSelector
}

// FargateSelector selects the pods of a namespace with labels.
type FargateSelector struct {
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels,omitempty"`
}

func (a *account) fargateActions() map[string]action {
	return map[string]action{"ListFargateProfiles": document(a.listFargateProfiles), "DescribeFargateProfile": document(a.describeFargateProfile)}
}

var fargateRoutes = []route{
	{http.MethodGet, "/clusters/{cluster}/fargate-profiles", "ListFargateProfiles"},
	{http.MethodGet, "/clusters/{cluster}/fargate-profiles/{profile}", "DescribeFargateProfile"},
}

// SetFargateProfile adds a Fargate profile to a cluster, or removes the one of its name.
func (s *Simulator) SetFargateProfile(clusterName string, p FargateProfile, exists bool) error {
	var err error
	s.locked(func(a *account) {
		c, ok := a.clusters[clusterName]
		if !ok {
			err = fmt.Errorf("changing Fargate profile %s of cluster %s: there is no cluster of that name", p.Name, clusterName)
			return
		}
		if c.fargate == nil {
			c.fargate = map[string]FargateProfile{}
		}
		if delete(c.fargate, p.Name); exists {
			c.fargate[p.Name] = p
		}
	})
	return err
}

func (a *account) listFargateProfiles(r *request, _ *struct{}) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(c.fargate))
	if names == nil {
		names = []string{}
	}
	return &object{"fargateProfileNames": names}, nil
}

func (a *account) describeFargateProfile(r *request, _ *struct{}) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	p, ok := c.fargate[r.path["profile"]]
	if !ok {
		return nil, eksNotFound("No Fargate Profile found with name: %s.", r.path["profile"])
	}
	return &object{"fargateProfile": object{
		"fargateProfileName": p.Name, "clusterName": c.Name, "status": "ACTIVE", "selectors": p.Selectors, "subnets": c.subnets, "tags": object{},
		"fargateProfileArn": a.arn("eks", a.options.Region, "fargateprofile/"+c.Name+"/"+p.Name+"/"+fixedID("", p.Name)),
	}}, nil
}
