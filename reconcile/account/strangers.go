package account

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
)

// maxUserData is of how many instances one comparison reads the user data.
const maxUserData = 5

// Compared is what the last comparison found about instances and resources of which this cluster knows nothing.
type Compared struct {
	Strangers []Stranger
	Resources []Resource
	// Ours and Theirs are how many running instances NodeClaims of this cluster have, and how many others there are.
	Ours, Theirs int32
}

// Compared returns what the last comparison found; zero before the first.
func (a *InstanceChecker) Compared() Compared {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.compared
}

// findStrangers finds the instances with this cluster's tags that were launched since the daemon began to watch, and
// that no NodeClaim has or had. It reads the user data of some of them, each once.
func (q *question) findStrangers(ctx context.Context, aws InstanceCloud) {
	found, sample := q.unclaimed()
	if len(found) == 0 {
		return
	}
	slices.SortFunc(found, func(a, b *cloud.Instance) int { return b.Launched.Compare(a.Launched) })
	ours := ourEndpoints(hostOf(q.endpoint), q.endpointsOf(ctx, aws, sample))
	for _, n := range found {
		endpoints := q.endpointsOf(ctx, aws, n.ProviderID())
		s := Stranger{Instance: n.ID, Pool: n.Pool, Launched: n.Launched, Alive: !isTerminating(n)}
		isOurs := slices.ContainsFunc(endpoints, func(host string) bool { return slices.Contains(ours, host) })
		if len(ours) > 0 && (len(endpoints) == 1 || len(endpoints) > 1 && !isOurs) {
			s.Endpoint, s.Foreign = "https://"+endpoints[0], !isOurs
		}
		if s.Endpoint != "" || s.Alive && n.Launched.Before(q.fleet.Settled) {
			q.compared.Strangers = append(q.compared.Strangers, s)
		}
	}
}

// ourEndpoints returns the hosts of this cluster's API server: the one that EKS returns, and the one in the user data of an
// instance of this cluster (sample) if that joins by another, such as a proxy. Committers write a part of user data: if it
// contains several hosts, it is unknown which of them the node uses.
func ourEndpoints(eks string, sample []string) (ours []string) {
	if eks != "" {
		ours = append(ours, eks)
	}
	if len(sample) == 1 && sample[0] != eks {
		ours = append(ours, sample[0])
	}
	return ours
}

// unclaimed returns these instances, and the providerID of a running one that has a NodeClaim; empty if there is none. It
// counts how many run on either side.
func (q *question) unclaimed() (found []*cloud.Instance, sample string) {
	claimed := map[string]bool{}
	for i := range q.fleet.Claims {
		claimed[q.fleet.Claims[i].ProviderID] = true
	}
	for i := range q.fleet.Shown {
		n := &q.fleet.Shown[i]
		running := !isTerminating(n)
		switch {
		case claimed[n.ProviderID()] && running:
			q.compared.Ours++
			sample = n.ProviderID()
			continue
		case n.Pool == "" || claimed[n.ProviderID()] || q.history.instances[n.ID]:
			continue
		case running && n.Launched.Before(q.fleet.Settled):
			q.compared.Theirs++
		}
		if n.Launched.After(q.history.since) && q.now.Sub(n.Launched) < SignsLast {
			found = append(found, n)
		}
	}
	return found, sample
}

// endpointsOf returns the hosts of the API servers in the user data of an instance; none if that is unknown.
func (q *question) endpointsOf(ctx context.Context, aws InstanceCloud, providerID string) []string {
	if hosts, known := q.endpoints[providerID]; known || providerID == "" {
		return hosts
	}
	if q.userData++; q.userData > maxUserData {
		return nil
	}
	text, err := aws.UserData(ctx, providerID)
	if err != nil {
		return nil
	}
	q.endpoints[providerID] = apiServers(text)
	return q.endpoints[providerID]
}

// apiServer finds the API server in the user data of Karpenter's AMI families (karpenter-provider-aws
// pkg/providers/amifamily/bootstrap): NodeConfig of AL2023, the bootstrap scripts of AL2 and Windows, and Bottlerocket's
// settings.
var apiServer = regexp.MustCompile(`(?i)(?:apiServerEndpoint"?\s*:|--apiserver-endpoint[ =]|-APIServerEndpoint |api-server"?\s*=)\s*["']?(https://[^\s"',}]+)`)

// apiServers returns the hosts of the API servers in user data, each once.
func apiServers(userData string) (hosts []string) {
	for _, match := range apiServer.FindAllStringSubmatch(userData, -1) {
		if host := hostOf(match[1]); host != "" && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// hostOf returns the host of an endpoint, in lower case and with its port unless that is 443; empty if it has none.
func hostOf(endpoint string) string {
	parsed, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.ToLower(parsed.Host), ":443")
}

// noteUnexplained notes a launch template or an instance profile that was created since the daemon began to watch, for
// no EC2NodeClass that this cluster has had.
func (q *question) noteUnexplained(f leftover.Found) {
	if f.Kind != cloud.KindLaunchTemplate && f.Kind != cloud.KindInstanceProfile || !f.Created.After(q.history.since) || f.Created.After(q.fleet.Settled) {
		return
	}
	q.compared.Resources = append(q.compared.Resources, Resource{What: fmt.Sprintf("%s %s", leftover.Noun(f.Kind), f.ID), Created: f.Created})
}

// signSpacing is the minimum time between two comparisons because of terminations.
const signSpacing = 15 * time.Second
