package render

import "fmt"

// checkValues finds values of the chart that contradict cluster: a controller
// with another clusterName loses sight of every node.
func (k *Karpenter) checkValues() []problem {
	var found []problem
	settings, _ := k.Values["settings"].(map[string]any)
	if name, given := settings["clusterName"]; given && name != k.Cluster.Name {
		found = append(found, contradiction("values.settings.clusterName", name, "cluster.name", k.Cluster.Name))
	}
	if region, given := settings["region"]; given && region != k.Cluster.Region {
		found = append(found, contradiction("values.settings.region", region, "cluster.region", k.Cluster.Region))
	}
	controller, _ := k.Values["controller"].(map[string]any)
	env, _ := controller["env"].([]any)
	for i, one := range env {
		variable, _ := one.(map[string]any)
		at := fmt.Sprintf("values.controller.env[%d]", i)
		switch variable["name"] {
		case "CLUSTER_NAME":
			if variable["value"] != k.Cluster.Name {
				found = append(found, contradiction(at, variable["value"], "cluster.name", k.Cluster.Name))
			}
		case "AWS_REGION", "AWS_DEFAULT_REGION":
			if variable["value"] != k.Cluster.Region {
				found = append(found, contradiction(at, variable["value"], "cluster.region", k.Cluster.Region))
			}
		}
	}
	return found
}

func contradiction(at string, value any, field, is string) problem {
	return problem{at, fmt.Sprintf("%s is %v, and %s is %s: leave the value out, it comes from %s", at, value, field, is, field)}
}
