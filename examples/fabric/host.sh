mlnx_qos -i eth1 --trust dscp --pfc 0,0,0,0,1,0,0,0
mlnx_qos -i eth1 --dscp2prio set,32,4
cma_roce_tos -d mlx5_0 -t 130
