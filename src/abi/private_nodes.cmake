# Makes the version script and private_nodes.c: names that exist so that binaries load, not to do
# something. Providers for adapters (libmlx5, libefa, ...) bind the driver interface at a node named
# after their rdma-core release; each node gets every name of that interface. Programs built before
# 2008 bind node IBVERBS_1.0, whose structs had another layout: they see no device.
set(private_releases 15 16 17 18 19 20 21 22 25 33 34 57 59 64)

# Returned values of the driver interface: an errno unless listed here.
set(private_null _verbs_init_and_alloc_context verbs_open_device)
set(private_void __verbs_log verbs_init_cq verbs_set_ops verbs_uninit_context)
set(private_zero __ioctl_final_num_attrs)
set(private_errno
    execute_ioctl ibv_get_fw_ver ibv_read_ibdev_sysfs_file
    ibv_cmd_advise_mr ibv_cmd_alloc_dm ibv_cmd_alloc_dmah ibv_cmd_alloc_mw ibv_cmd_alloc_pd
    ibv_cmd_attach_mcast ibv_cmd_close_xrcd ibv_cmd_create_ah ibv_cmd_create_counters
    ibv_cmd_create_cq ibv_cmd_create_cq_ex ibv_cmd_create_cq_ex2 ibv_cmd_create_flow
    ibv_cmd_create_flow_action_esp ibv_cmd_create_qp ibv_cmd_create_qp_ex ibv_cmd_create_qp_ex2
    ibv_cmd_create_rwq_ind_table ibv_cmd_create_srq ibv_cmd_create_srq_ex ibv_cmd_create_wq
    ibv_cmd_dealloc_mw ibv_cmd_dealloc_pd ibv_cmd_dereg_mr ibv_cmd_destroy_ah
    ibv_cmd_destroy_counters ibv_cmd_destroy_cq ibv_cmd_destroy_flow ibv_cmd_destroy_flow_action
    ibv_cmd_destroy_qp ibv_cmd_destroy_rwq_ind_table ibv_cmd_destroy_srq ibv_cmd_destroy_wq
    ibv_cmd_detach_mcast ibv_cmd_dm_export_dmabuf_fd ibv_cmd_export_dmabuf_fd ibv_cmd_free_dm
    ibv_cmd_free_dmah ibv_cmd_get_context ibv_cmd_modify_cq ibv_cmd_modify_flow_action_esp
    ibv_cmd_modify_qp ibv_cmd_modify_qp_ex ibv_cmd_modify_srq ibv_cmd_modify_wq ibv_cmd_open_qp
    ibv_cmd_open_xrcd ibv_cmd_poll_cq ibv_cmd_post_recv ibv_cmd_post_send ibv_cmd_post_srq_recv
    ibv_cmd_query_context ibv_cmd_query_device ibv_cmd_query_device_any ibv_cmd_query_device_ex
    ibv_cmd_query_mr ibv_cmd_query_port ibv_cmd_query_port_speed ibv_cmd_query_qp
    ibv_cmd_query_srq ibv_cmd_read_counters ibv_cmd_reg_dm_mr ibv_cmd_reg_dmabuf_mr ibv_cmd_reg_mr
    ibv_cmd_reg_mr_ex ibv_cmd_req_notify_cq ibv_cmd_rereg_mr ibv_cmd_resize_cq)

# The functions of IBVERBS_1.0 whose structs changed, by what they return.
set(old_null ibv_alloc_pd ibv_create_ah ibv_create_cq ibv_create_qp ibv_create_srq
    ibv_get_device_guid ibv_get_device_name ibv_open_device ibv_reg_mr)
set(old_void ibv_ack_async_event ibv_ack_cq_events)
set(old_errno
    ibv_attach_mcast ibv_close_device ibv_dealloc_pd ibv_dereg_mr ibv_destroy_ah ibv_destroy_cq
    ibv_destroy_qp ibv_destroy_srq ibv_detach_mcast ibv_get_async_event ibv_get_cq_event
    ibv_modify_qp ibv_modify_srq ibv_query_device ibv_query_gid ibv_query_pkey ibv_query_port
    ibv_query_qp ibv_query_srq ibv_resize_cq)

set(code "/* Made by private_nodes.cmake. */\n#include \"abi/private_stubs.h\"\n")
set(map "")

# export(TARGET NAME NODE SEPARATOR): another name of the stub TARGET.
macro(export target name node separator)
  string(MAKE_C_IDENTIFIER "stub_${node}_${name}" symbol)
  string(APPEND code "int ${symbol}(void) __attribute__((alias(\"verbena_stub_${target}\")));\n"
         "__asm__(\".symver ${symbol}, ${name}${separator}${node}\");\n")
endmacro()

foreach(release ${private_releases})
  set(node IBVERBS_PRIVATE_${release})
  set(separator "@")
  if(release EQUAL 34)
    set(separator "@@")
  endif()
  string(APPEND map "${node} { };\n")
  foreach(kind null void zero errno)
    foreach(name ${private_${kind}})
      export(${kind} ${name} ${node} ${separator})
    endforeach()
  endforeach()
  export(void verbs_register_driver_${release} ${node} ${separator})
  string(APPEND code
         "int stub_gid_type_${release}(GID_TYPE_PARAMETERS) { return GID_TYPE_CALL; }\n"
         "__asm__(\".symver stub_gid_type_${release}, "
         "ibv_query_gid_type${separator}${node}\");\n"
         "extern unsigned char stub_flag_${release} "
         "__attribute__((alias(\"verbena_stub_flag\")));\n"
         "__asm__(\".symver stub_flag_${release}, "
         "verbs_allow_disassociate_destroy${separator}${node}\");\n")
endforeach()

foreach(kind null void errno)
  foreach(name ${old_${kind}})
    export(${kind} ${name} IBVERBS_1.0 "@")
  endforeach()
endforeach()
export(empty_list ibv_get_device_list IBVERBS_1.0 "@")
export(free ibv_free_device_list IBVERBS_1.0 "@")
export(void ibv_register_driver IBVERBS_1.1 "@")

file(READ ${CMAKE_CURRENT_SOURCE_DIR}/libibverbs.map.in public_map)
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/libibverbs.map
     CONTENT "${public_map}${map}" @ONLY)
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/private_nodes.c CONTENT "${code}" @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${CMAKE_CURRENT_SOURCE_DIR}/libibverbs.map.in)
