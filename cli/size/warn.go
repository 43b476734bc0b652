package size

import "fmt"

// other is the advice where one leader, or memory, is not enough.
const other = "data that does not fit into memory is for an engine on PostgreSQL or Cassandra, which Skerry does not have yet"

// warn lists what does not fit, and where the model is not sure.
func (a *Answer) warn(c constants) {
	n, m := a.Need, a.Machine
	a.Fits = true
	lacks := func(what string, need, have, most float64, format func(float64) string, advice string) {
		if have > 0 && need > have*most {
			a.Fits = false
			a.Warnings = append(a.Warnings, fmt.Sprintf("%s: %s of %s is more than %.0f %%: %s", what, format(need), format(have), 100*most, advice))
		}
	}
	lacks("memory", a.Resident, m.Memory, memoryUse, bytesText, "take a machine with more, or keep less in memory; "+other)
	lacks("disk", a.Disk, m.Disk, memoryUse, bytesText, "take a larger disk")
	lacks("CPU of the leader", a.LeaderCPU, m.Cores, mostUse, coresText, "all writes pass through one leader, so more nodes do not help: take more cores, or split the data into several clusters")
	lacks("disk writes", a.WriteRate, m.Write, mostUse, rateText, "take a faster disk")
	lacks("network of the leader", a.LeaderSend, m.Network, mostUse, rateText, "take a faster network or fewer nodes")
	if a.Resident > bigResident {
		a.Fits = false
		a.Warnings = append(a.Warnings, "memory: "+bytesText(a.Resident)+" a node is beyond what one machine should hold; "+other)
	}
	if a.CatchUpSeconds < 0 && n.Nodes+n.Replicas > 1 {
		a.Fits = false
		a.Warnings = append(a.Warnings, "catching up: writes arrive as fast as a new node can be sent them, so it never catches up; raise the limit or the bandwidth")
	}
	if n.Nodes == 1 {
		a.Warnings = append(a.Warnings, "one node: if its disk is lost, so is what was written since the last backup or archive")
	} else if n.Nodes%2 == 0 {
		a.Warnings = append(a.Warnings, fmt.Sprintf("%d nodes survive no more failures than %d; take an odd number", n.Nodes, n.Nodes-1))
	}
	if n.Sites > 1 && a.LocalMajority {
		a.Warnings = append(a.Warnings, "one site has a majority: writes do not wait for another one, but if that site is lost, nothing can be written; three sites survive the loss of any one")
	}
	if n.ValueBytes > bigValue {
		a.Warnings = append(a.Warnings, fmt.Sprintf("values of %s cost more CPU than those of 100 bytes, with which it was measured", bytesText(n.ValueBytes)))
	}
	if n.Keys > float64(c.mostKeys)*keysFactor {
		a.Warnings = append(a.Warnings, fmt.Sprintf("%s keys are far more than the %s that were measured: these numbers are a guess", countText(n.Keys), countText(float64(c.mostKeys))))
	}
}
