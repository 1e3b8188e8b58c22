package daemon

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// OpenRemovals returns the UIDs of the open removals in a ConfigMap with the record of removals. For a completed
// removal, the record may still contain pods that no pool can run.
func OpenRemovals(record *corev1.ConfigMap) ([]string, error) {
	var open []string
	for uid, data := range record.Data {
		var removal struct {
			Left []any `json:"left"`
		}
		if err := json.Unmarshal([]byte(data), &removal); err != nil {
			return nil, fmt.Errorf("decode removal %s in ConfigMap %s: %w", uid, record.Name, err)
		}
		if len(removal.Left) == 0 {
			open = append(open, uid)
		}
	}
	return open, nil
}
