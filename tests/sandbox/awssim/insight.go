package awssim

import (
	"fmt"
	"net/http"
)

var insightRoutes = []route{{http.MethodPost, "/clusters/{cluster}/insights", "ListInsights"}}

// listInsights returns one insight, which passes unless SetInsight has changed it.
func (a *account) listInsights(r *request, _ *struct{}) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	status := object{"status": "PASSING", "reason": "No deprecated API usage detected within the last 30 days."}
	if c.insight != "" {
		status = object{"status": c.insight, "reason": "Deprecated APIs were used within the last 30 days."}
	}
	return &object{"insights": []object{{
		"id": fixedID("", "deprecated-apis")[:8], "name": "Deprecated APIs removed in the next version of Kubernetes",
		"category": "UPGRADE_READINESS", "kubernetesVersion": c.Version, "insightStatus": status,
	}}}, nil
}

// SetInsight sets the status of a cluster's insight, such as ERROR; empty for PASSING.
func (s *Simulator) SetInsight(clusterName, status string) error {
	var err error
	s.locked(func(a *account) {
		c, ok := a.clusters[clusterName]
		if !ok {
			err = fmt.Errorf("changing the insight of cluster %s: there is none of that name", clusterName)
			return
		}
		c.insight = status
	})
	return err
}
