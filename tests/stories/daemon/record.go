package daemon

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// OpenRemovals are the removals, by UID, that a ConfigMap with the record of removals has and that
// are not over. Of one that is over it may have pods that no pool takes.
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
