package recorder

// causes are all causes, each in words that go on after "it ended:".
var causes = []struct {
	cause Cause
	words string
}{
	{Drifted, "it did not match its NodePool or EC2NodeClass, and Karpenter replaced it"},
	{Empty, "it was empty, and Karpenter consolidated it"},
	{Underutilized, "it was underutilized, and Karpenter consolidated it"},
	{Expired, "it was older than its expireAfter, and Karpenter ended it"},
	{Interrupted, "AWS announced that the instance would end or fail, and Karpenter drained it"},
	{Unhealthy, "its node was unhealthy for too long, and Karpenter repaired it"},
	{Removed, "its NodePool left Git, and plumbline removed it"},
	{PoolDeleted, "another client deleted its NodePool, and Kubernetes deleted it with the pool"},
	{LaunchFailed, "no instance could be launched for it"},
	{NotRegistered, "its instance did not join the cluster within 15 minutes"},
	{InstanceGone, "its instance ended in EC2 before Karpenter had drained it"},
	{ByHand, "another client deleted it: nothing of Karpenter or plumbline says why"},
	{Unknown, "what was seen does not say why"},
}

// Causes are all causes.
func Causes() []Cause {
	all := make([]Cause, 0, len(causes))
	for _, c := range causes {
		all = append(all, c.cause)
	}
	return all
}

// Words say a cause in a sentence; empty for one of another version of plumbline.
func (c Cause) Words() string {
	for _, one := range causes {
		if one.cause == c {
			return one.words
		}
	}
	return ""
}
